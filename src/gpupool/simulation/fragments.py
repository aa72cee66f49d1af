"""How much of what is free is of no use to those who are likely to come: fragmentation, node by node.

The measure is that of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): of what is free on a node, a class of
claims cannot use all of it when it cannot run there, else what lies on cards too full for one of its seats; F is the
mean over classes, weighted by how often they come. A class that asks for no card can use no card: all is a fragment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupool.model.claim import ANYWHERE, Shape
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.snapshot import CARD_STATUS, Bools, Cards, CardStatus, Expected, Ints
from gpupool.simulation.trace import Arrival

COVERED_PCT = 95
"""So many of the jobs are of the classes that are looked at, most frequent first, as in the paper."""


def expected_of(arrivals: Iterable[Arrival]) -> Expected:
    """What a trace asks for, as the classes that cover most of it: by compute, cards, model and processors."""
    seen: Counter[Shape] = Counter()
    for one in arrivals:
        seen[replace(one.shape, memory_bytes=None, host_bytes=0, within=ANYWHERE)] += one.members
    ordered = sorted(seen.items(), key=lambda item: (-item[1], -item[0].count, -item[0].gpu_milli, str(item[0])))
    kept: list[tuple[Shape, int]] = []
    covered, total = 0, seen.total()
    for shape, count in ordered:
        if covered * 100 >= COVERED_PCT * total:
            break
        kept.append((shape, count))
        covered += count
    return Expected(tuple(shape for shape, _ in kept), tuple(float(count) for _, count in kept))


@dataclass(frozen=True)
class Fragments:
    """In milli-devices over the whole pool: what is free, F, and what of the free each class cannot use."""

    free_milli: int
    amount_milli: float
    by_class: tuple[int, ...]


class Fragmentation:
    """The measure over one pool, for the classes that are expected; `look` reads what is free now."""

    def __init__(self, cards: Cards, expected: Expected) -> None:
        self._expected = expected
        self._open = cards.status == CARD_STATUS.index(CardStatus.OPEN)
        self._allowed = [_allowed(shape, cards) & self._open for shape in expected.shapes]
        total = sum(expected.counts) or 1.0
        self._weights = [count / total for count in expected.counts]

    def look(self, cards: Cards) -> Fragments:
        free = np.where(self._open, np.maximum(cards.free_milli, 0), 0)
        by_class = tuple(
            self._unusable(shape, allowed, cards, free)
            for shape, allowed in zip(self._expected.shapes, self._allowed, strict=True)
        )
        amount = sum(weight * milli for weight, milli in zip(self._weights, by_class, strict=True))
        return Fragments(int(free.sum()), amount, by_class)

    def _unusable(self, shape: Shape, allowed: Bools, cards: Cards, free: Ints) -> int:
        if not shape.count:
            return int(free.sum())
        usable = allowed & (free >= shape.gpu_milli)
        seats = np.bincount(cards.node[usable], minlength=len(cards.nodes))
        runs: Bools = seats >= shape.count
        if cards.hosts is not None:
            runs &= cards.hosts.free_cpu_milli >= shape.cpu_milli
        return int(free.sum()) - int(free[usable & runs[cards.node]].sum())


def _allowed(shape: Shape, cards: Cards) -> Bools:
    if shape.model is None:
        return np.ones(len(cards), dtype=np.bool_)
    asked = shape.model.split("|")
    named = [any(model_matches(one, model) for one in asked) for model in cards.models]
    column: Bools = np.array(named, dtype=np.bool_)[cards.model]
    return column


def largest_milli(cards: Cards, whole: Ints) -> int:
    """The largest claim on one node that would start now: whole cards, or where none is free the largest share."""
    most = int(whole.max(initial=0))
    return most * 1000 if most else int(cards.free_milli.max(initial=0))


def whole_by_node(cards: Cards) -> Ints:
    """Per node, cards that are open and hold nothing."""
    return _count(cards, untouched(cards))


def untouched(cards: Cards) -> Bools:
    free: Bools = (cards.free_milli >= 1000) & (cards.free_bytes >= cards.memory_bytes)
    free &= cards.status == CARD_STATUS.index(CardStatus.OPEN)
    return free


def _count(cards: Cards, chosen: Bools) -> Ints:
    return np.bincount(cards.node[chosen], minlength=len(cards.nodes))


def names(shapes: Sequence[Shape]) -> list[str]:
    """Short names of classes: `0.50 GPU`, `8 cards`, `2 cards L40S`."""
    return [_name(shape) for shape in shapes]


def _name(shape: Shape) -> str:
    if not shape.count:
        return "no card"
    base = f"{shape.count} card{'s' if shape.count > 1 else ''}" if shape.whole else f"{shape.gpu_milli / 1000:g} GPU"
    if not shape.whole and shape.count > 1:
        base = f"{shape.count} × {base}"
    cpu = f", {shape.cpu_milli / 1000:g} cores" if shape.cpu_milli else ""
    return base + (f" {shape.model}" if shape.model else "") + cpu
