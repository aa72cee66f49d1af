"""What is likely to be asked for next, as a rule of placement sees it: few classes, and how often each comes.

A class knows processors, cards, compute per card and allowed models; memory, labels and everything else that only
filters is left out, as in "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). Weights are whole numbers, so that
whatever is added up of them is exact and the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.free import UNLIMITED
from gpupool.scheduling.snapshot import Bools, Cards, Expected, Ints

COVERED_PCT = 95
"""So much of what is expected the typical classes cover, most frequent first (the paper's value)."""

_FINE = 1_000_000
"""The sum of weights where counts are not whole numbers (a decayed memory's are not)."""

Key = tuple[int, int, int, str]
"""Processors, milli per card, cards, models: the order in which equal counts follow each other, largest first."""


@dataclass(frozen=True)
class Classes:
    """One entry per class, most frequent first; a class without cards has a count and a milli of 0."""

    cpu_milli: Ints
    milli: Ints
    count: Ints
    models: tuple[str, ...]
    """As in a shape, `|` between several; empty is any."""
    weight: Ints

    def __len__(self) -> int:
        return len(self.models)

    @property
    def total(self) -> int:
        return int(self.weight.sum())

    def first(self, number: int) -> Classes:
        return self.only(np.arange(len(self)) < number)

    def only(self, chosen: Bools) -> Classes:
        cpu, milli, count, weight = (c[chosen] for c in (self.cpu_milli, self.milli, self.count, self.weight))
        return Classes(cpu, milli, count, tuple(self.models[n] for n in np.flatnonzero(chosen)), weight)

    @property
    def large(self) -> Classes:
        """Those that ask for several whole cards of one node, and so for hosts more than for cards."""
        return self.only((self.count > 1) & (self.milli == WHOLE))


def key_of(shape: Shape) -> Key:
    """The class of a shape."""
    milli = shape.held_milli if shape.count else 0
    return shape.cpu_milli, milli, shape.count if milli else 0, shape.model or ""


def histogram(expected: Expected) -> Classes:
    """Every class that is expected, shapes that differ in nothing but memory or labels as one."""
    seen: Counter[Key] = Counter()
    for shape, weight in zip(expected.shapes, _whole(expected.counts), strict=True):
        seen[key_of(shape)] += weight
    ordered = sorted(seen.items(), key=lambda item: (item[1], item[0]), reverse=True)
    cpu, milli, count = (np.array(column, dtype=np.int64) for column in _columns([key for key, _ in ordered]))
    weights = np.array([weight for _, weight in ordered], dtype=np.int64)
    return Classes(cpu, milli, count, tuple(key[3] for key, _ in ordered), weights)


def typical(classes: Classes, covered_pct: int = COVERED_PCT) -> Classes:
    """The most frequent classes, as few as cover that much of all."""
    before = np.cumsum(classes.weight) - classes.weight
    return classes.first(int(np.count_nonzero(before * 100 < covered_pct * classes.total)))


class Kinds:
    """Nodes that are the same to every class: those with the same models and, where classes are given, with room when
    empty for the same of the large ones. `of_node` numbers them."""

    def __init__(self, cards: Cards, classes: Classes | None = None) -> None:
        on_node: list[set[int]] = [set() for _ in cards.nodes]
        for node, model in zip(cards.node.tolist(), cards.model.tolist(), strict=True):
            on_node[node].add(model)
        seats = np.bincount(cards.node, minlength=len(cards.nodes))
        cpu = np.full(len(cards.nodes), UNLIMITED) if cards.hosts is None else cards.hosts.cpu_milli
        rooms = _rooms(seats, cpu, classes.large) if classes else [()] * len(cards.nodes)
        sets = [(tuple(sorted(models)), room) for models, room in zip(on_node, rooms, strict=True)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(sets))}
        self.of_node = np.array([numbers[key] for key in sets], dtype=np.int64)
        self._models = tuple(tuple(cards.models[model] for model in models) for models, _ in numbers)
        first = np.unique(self.of_node, return_index=True)[1]
        self._seats, self._cpu = seats[first], cpu[first]

    def __len__(self) -> int:
        return len(self._models)

    def allowed(self, models: Iterable[str]) -> Bools:
        """Per class and kind of node, whether a card of it may be taken; a class that names no model may take any."""
        lines = [[not asked or _any(asked, has) for has in self._models] for asked in models]
        return np.array(lines, dtype=np.bool_).reshape(len(lines), len(self._models))

    def hosts(self, large: Classes) -> Bools:
        """Per large class and kind of node, whether such a node could take a claim of it when empty."""
        room: Bools = _room(self._seats, self._cpu, large)
        return self.allowed(large.models) & room


def _room(seats: Ints, cpu_milli: Ints, large: Classes) -> Bools:
    enough: Bools = (seats >= large.count[:, None]) & (cpu_milli >= large.cpu_milli[:, None])
    return enough


def _rooms(seats: Ints, cpu_milli: Ints, large: Classes) -> list[tuple[int, ...]]:
    """Per node, numbers of the large classes that it has room for when empty."""
    makes, of_node = np.unique(np.stack((seats, cpu_milli)), axis=1, return_inverse=True)
    holds = [tuple(np.flatnonzero(line).tolist()) for line in _room(makes[0], makes[1], large).T]
    return [holds[make] for make in of_node.reshape(-1).tolist()]


def _columns(keys: list[Key]) -> tuple[list[int], list[int], list[int]]:
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]


def _any(asked: str, models: Iterable[str]) -> bool:
    return any(model_matches(asked, model) for model in models)


def _whole(counts: Iterable[float]) -> list[int]:
    counts = tuple(counts)
    total = sum(counts)
    scale = 1.0 if all(float(count).is_integer() for count in counts) and total <= _FINE else _FINE / total
    return [round(count * scale) for count in counts]
