"""How much of what is free is of no use to those who are likely to come: fragmentation, node by node.

The measure is that of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): of what is free on a node, a class of
claims cannot use all of it when it cannot run there, else what lies on cards too full for one of its seats; F is the
mean over classes, weighted by how often they come. A class that asks for no card can use no card: all is a fragment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.expected import Classes, histogram, typical
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.snapshot import CARD_STATUS, Bools, Cards, CardStatus, Expected, Ints
from gpupool.simulation.trace import Arrival


def expected_of(arrivals: Iterable[Arrival]) -> Expected:
    """All that a trace asks for, most frequent first."""
    seen: Counter[Shape] = Counter()
    for one in arrivals:
        seen[one.shape] += one.members
    ordered = sorted(seen.items(), key=lambda item: (-item[1], repr(item[0])))
    return Expected(tuple(shape for shape, _ in ordered), tuple(float(count) for _, count in ordered))


@dataclass(frozen=True)
class Fragments:
    """In milli-devices over the whole pool: what is free, F, and what of the free each class cannot use."""

    free_milli: int
    amount_milli: float
    by_class: tuple[int, ...]


class Fragmentation:
    """The measure over one pool, for the typical classes of what is expected; `look` reads what is free now."""

    def __init__(self, cards: Cards, expected: Expected) -> None:
        self.classes = typical(histogram(expected.shares))
        self._open = _open(cards)
        self._allowed = [_allowed(models, cards) & self._open for models in self.classes.models]

    def look(self, cards: Cards) -> Fragments:
        free = np.where(self._open, np.maximum(cards.free_milli, 0), 0)
        by_class = tuple(self._unusable(number, cards, free) for number in range(len(self.classes)))
        weighted = sum(int(w) * milli for w, milli in zip(self.classes.weight, by_class, strict=True))
        return Fragments(int(free.sum()), weighted / max(1, self.classes.total), by_class)

    def _unusable(self, number: int, cards: Cards, free: Ints) -> int:
        count = int(self.classes.count[number])
        if not count:
            return int(free.sum())
        usable = self._allowed[number] & (free >= self.classes.milli[number])
        runs: Bools = np.bincount(cards.node[usable], minlength=len(cards.nodes)) >= count
        if cards.hosts is not None:
            runs &= cards.hosts.free_cpu_milli >= self.classes.host[number]
        return int(free.sum()) - int(free[usable & runs[cards.node]].sum())


def _allowed(models: str, cards: Cards) -> Bools:
    named = [not models or model_matches(models, model) for model in cards.models]
    column: Bools = np.array(named, dtype=np.bool_)[cards.model]
    return column


def largest_milli(cards: Cards, whole: Ints) -> int:
    """The largest claim on one node that would start now: whole cards, or where none is free the largest share."""
    most = int(whole.max(initial=0))
    return most * WHOLE if most else int(cards.free_milli[_open(cards)].max(initial=0))


def whole_by_node(cards: Cards) -> Ints:
    """Per node, cards that are open and hold nothing."""
    return _count(cards, untouched(cards))


def untouched(cards: Cards) -> Bools:
    free: Bools = (cards.free_milli >= WHOLE) & (cards.free_bytes >= cards.memory_bytes)
    free &= _open(cards)
    return free


def _open(cards: Cards) -> Bools:
    """To shares and whole claims: cards in partition mode are for partitions alone."""
    found: Bools = cards.status == CARD_STATUS.index(CardStatus.OPEN)
    found[np.fromiter(cards.cuts, dtype=np.int64)] = False
    return found


def _count(cards: Cards, chosen: Bools) -> Ints:
    return np.bincount(cards.node[chosen], minlength=len(cards.nodes))


def names(classes: Classes) -> list[str]:
    """Short names of classes: `0.5 GPU`, `8 cards`, `2 cards L40S`."""
    return [_name(classes, number) for number in range(len(classes))]


def _name(classes: Classes, number: int) -> str:
    count, milli, cpu = (int(c[number]) for c in (classes.count, classes.milli, classes.host))
    cores = f"{cpu / 1000:g} cores" if cpu else ""
    if not count:
        return ", ".join(filter(None, ["no card", cores]))
    seats = f"{count} card{'s' if count > 1 else ''}" if milli == WHOLE else f"{milli / WHOLE:g} GPU"
    base = f"{count} × {seats}" if milli < WHOLE and count > 1 else seats
    return ", ".join(filter(None, [f"{base} {classes.models[number]}".strip(), cores]))
