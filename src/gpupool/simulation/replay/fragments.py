"""Measure fragmentation: how much of the free compute the expected claims cannot use.

The measure is that of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). For one class of
claims, all free compute of a node is a fragment if the class cannot run there; otherwise only the
free compute of cards that are too full for one of its seats. F is the mean over classes, weighted
by how often they come. A class without a card can use no card: all is a fragment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import is_model_match
from gpupool.scheduling.scoring.expected_demand import DemandClasses, build_classes, select_typical
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.simulation.traces.trace import JobArrival


def count_arrivals(arrivals: Iterable[JobArrival]) -> ExpectedDemand:
    """Count what a whole trace asks for, the most frequent shape first."""
    counts: Counter[Shape] = Counter()
    for one in arrivals:
        counts[one.shape] += one.members
    # By `repr` where counts are equal: the order of arrival must not reach a policy's ties.
    ordered = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return ExpectedDemand(
        tuple(shape for shape, _ in ordered), tuple(float(count) for _, count in ordered)
    )


@dataclass(frozen=True)
class FragmentAmounts:
    """Thousandths of a card over the whole pool.

    Attributes:
        amount_milli: F, the weighted mean of `by_class`.
        by_class: what each class cannot use of the free compute.
    """

    free_milli: int
    amount_milli: float
    by_class: tuple[int, ...]


class FragmentationMeter:
    """The measure over one pool, for the typical classes of the expected demand."""

    def __init__(self, cards: CardTable, expected: ExpectedDemand) -> None:
        self.classes = select_typical(build_classes(expected.without_partitions))
        self._open = _select_open(cards)
        self._allowed = [
            _select_models(models, cards) & self._open for models in self.classes.models
        ]

    def measure_fragments(self, cards: CardTable) -> FragmentAmounts:
        """Measure what is free now in the columns of the pool."""
        free = np.where(self._open, np.maximum(cards.free_milli, 0), 0)
        by_class: list[int] = []
        weighted = 0
        for number in range(len(self.classes)):
            unusable = self._compute_unusable(number, cards, free)
            by_class.append(unusable)
            weighted += int(self.classes.weight[number]) * unusable
        amount = weighted / max(1, self.classes.total)
        return FragmentAmounts(int(free.sum()), amount, tuple(by_class))

    def _compute_unusable(self, number: int, cards: CardTable, free: Ints) -> int:
        count = int(self.classes.count[number])
        if not count:
            return int(free.sum())
        usable = self._allowed[number] & (free >= self.classes.milli[number])
        runs: Bools = np.bincount(cards.node[usable], minlength=len(cards.nodes)) >= count
        if cards.hosts is not None:
            runs &= cards.hosts.free_cpu_milli >= self.classes.host[number]
        return int(free.sum()) - int(free[usable & runs[cards.node]].sum())


def _select_models(models: str, cards: CardTable) -> Bools:
    named = [not models or is_model_match(models, model) for model in cards.models]
    column: Bools = np.array(named, dtype=np.bool_)[cards.model]
    return column


def compute_largest_milli(cards: CardTable, whole: Ints) -> int:
    """Return the largest claim on one node that would start now, in thousandths of a card.

    Whole cards, or the largest share if no node has a whole card free. `whole` is the result of
    `count_whole_cards`.
    """
    most = int(whole.max(initial=0))
    return most * WHOLE if most else int(cards.free_milli[_select_open(cards)].max(initial=0))


def compute_stranded_bytes(cards: CardTable) -> int:
    """Return the free memory of open cards that have no compute left to promise."""
    full = _select_open(cards) & (cards.free_milli <= 0)
    return int(np.maximum(cards.free_bytes, 0)[full].sum())


def count_whole_cards(cards: CardTable) -> Ints:
    """Count, for each node, the cards that are open and hold nothing."""
    return _count_by_node(cards, select_untouched(cards))


def select_untouched(cards: CardTable) -> Bools:
    """Select the cards that are open and hold nothing."""
    # Memory too: a claim of memory alone leaves all compute free.
    free: Bools = (cards.free_milli >= WHOLE) & (cards.free_bytes >= cards.untouched_bytes)
    free &= _select_open(cards)
    return free


def _select_open(cards: CardTable) -> Bools:
    """Select the cards that take shares and whole claims; cards in partition mode do not."""
    found: Bools = cards.status == CARD_STATUS.index(CardStatus.OPEN)
    found[np.fromiter(cards.layouts, dtype=np.int64)] = False
    return found


def _count_by_node(cards: CardTable, chosen: Bools) -> Ints:
    return np.bincount(cards.node[chosen], minlength=len(cards.nodes))


def list_class_names(classes: DemandClasses) -> list[str]:
    """List short names of classes: `0.5 GPU`, `8 cards`, `2 cards L40S`."""
    return [_name_class(classes, number) for number in range(len(classes))]


def _name_class(classes: DemandClasses, number: int) -> str:
    count = int(classes.count[number])
    milli = int(classes.milli[number])
    cpu_milli = int(classes.host[number])
    cores = f"{cpu_milli / 1000:g} cores" if cpu_milli else ""
    if not count:
        return ", ".join(filter(None, ["no card", cores]))
    if milli == WHOLE:
        seats = f"{count} card{'s' if count > 1 else ''}"
    else:
        seats = f"{milli / WHOLE:g} GPU"
        if count > 1:
            seats = f"{count} × {seats}"
    return ", ".join(filter(None, [f"{seats} {classes.models[number]}".strip(), cores]))
