"""What is likely to be asked for next, as a rule of placement sees it: few classes, and how often each comes.

A class knows one resource of the host (`host_resource`), cards, compute per card and allowed models; labels and
everything else that only filters is left out, as in "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). Memory of
cards is left out too while nobody asks for more of it than of compute (`memory_matters`): then compute is always gone
first. Weights are whole numbers, so that whatever is added up of them is exact and the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import model_matches
from gpupool.scheduling.host_resource import MAIN_MEMORY, PROCESSORS, HostResource
from gpupool.scheduling.makes import makes_of
from gpupool.scheduling.snapshot import Bools, Cards, Expected, Ints

COVERED_PCT = 95
"""So much of what is expected the typical classes cover, most frequent first (the paper's value)."""

FOLLOWS = -1
"""Memory in proportion to compute; so it is of whole cards, whatever they ask for."""

_TOO_MUCH = WHOLE + 1
"""Thousandths of memory that no card has."""

_FINE = 1_000_000
"""The sum of weights where counts are not whole numbers (a decayed memory's are not)."""

_MOST_SEEN = 1e15
"""Higher counts weigh no more; so no sum of them is infinite."""

Key = tuple[int, int, int, str]
"""Of its host, milli per card, cards, models: the order in which equal counts follow each other, largest first."""


@dataclass(frozen=True)
class Classes:
    """One entry per class, most frequent first; a class without cards has a count and a milli of 0."""

    host: Ints
    """Of the host's resource that counts, in its unit."""
    milli: Ints
    count: Ints
    models: tuple[str, ...]
    """As in a shape, `|` between several; empty is any."""
    weight: Ints
    memory: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Bytes per card, or FOLLOWS; empty where it plays no part."""

    def __len__(self) -> int:
        return len(self.models)

    @property
    def total(self) -> int:
        return int(self.weight.sum())

    def first(self, number: int) -> Classes:
        return self.only(np.arange(len(self)) < number)

    def only(self, chosen: Bools) -> Classes:
        host, milli, count, weight = (c[chosen] for c in (self.host, self.milli, self.count, self.weight))
        memory = self.memory[chosen] if len(self.memory) else self.memory
        return Classes(host, milli, count, tuple(self.models[n] for n in np.flatnonzero(chosen)), weight, memory)

    @property
    def large(self) -> Classes:
        """Those that ask for several whole cards of one node, and so for hosts more than for cards."""
        return self.only((self.count > 1) & (self.milli == WHOLE))


def key_of(shape: Shape, resource: HostResource = PROCESSORS) -> Key:
    """The class of a shape."""
    milli = shape.held_milli if shape.count else 0
    return resource.of_shape(shape), milli, shape.count if milli else 0, shape.model or ""


def histogram(expected: Expected, *, by_memory: bool = False, resource: HostResource = PROCESSORS) -> Classes:
    """Every class that is expected, shapes that differ in nothing but labels (or, unless asked for, memory) as one."""
    seen: Counter[tuple[Key, int]] = Counter()
    for shape, weight in zip(expected.shapes, whole_weights(expected.counts), strict=True):
        if weight:
            seen[key_of(shape, resource), _memory_of(shape) if by_memory else 0] += weight
    ordered = sorted(seen.items(), key=lambda item: (item[1], item[0]), reverse=True)
    host, milli, count = (np.array(column, dtype=np.int64) for column in _columns([key for (key, _), _ in ordered]))
    weights = np.array([weight for _, weight in ordered], dtype=np.int64)
    memory = np.array([memory for (_, memory), _ in ordered] if by_memory else [], dtype=np.int64)
    return Classes(host, milli, count, tuple(key[3] for (key, _), _ in ordered), weights, memory)


def memory_matters(expected: Expected, cards: Cards) -> bool:
    """Whether anything is expected that asks for more of a card's memory than of its compute, on a card it may take.

    If not, memory is never gone before compute is.
    """
    sizes = [(cards.models[model], size) for model, size in makes_of(cards).card_sizes]
    return any(_beyond(shape, model, size) for shape in expected.shapes for model, size in sizes)


def scarcer(expected: Expected, cards: Cards) -> HostResource:
    """Main memory where claims ask for a greater part of all there is of it than of all processors, else processors.

    What the pool has counts, not what is free: a decision must not depend on when a policy was begun.
    """
    if cards.hosts is None:
        return PROCESSORS
    by_memory = _asked(expected, MAIN_MEMORY) * int(cards.hosts.cpu_milli.sum())
    by_processors = _asked(expected, PROCESSORS) * int(cards.hosts.memory_bytes.sum())
    return MAIN_MEMORY if by_memory > by_processors else PROCESSORS


def is_short(expected: Expected, cards: Cards, resource: HostResource) -> bool:
    """Whether claims ask for a greater part of all there is of the hosts' resource than of all compute.

    Where they do, hosts are used up before cards are, whatever is left of the cards.
    """
    there = resource.of_hosts(cards)
    if there is None:
        return False
    weights = whole_weights(expected.counts)
    shapes = zip(expected.shapes, weights, strict=True)
    compute = sum(weight * shape.count * shape.held_milli for shape, weight in shapes)
    return _asked(expected, resource) * WHOLE * len(cards) > compute * int(there.sum())


def _asked(expected: Expected, resource: HostResource) -> int:
    weights = whole_weights(expected.counts)
    return sum(weight * resource.of_shape(shape) for shape, weight in zip(expected.shapes, weights, strict=True))


def typical(classes: Classes, covered_pct: int = COVERED_PCT) -> Classes:
    """The most frequent classes, as few as cover that much of all."""
    before = np.cumsum(classes.weight) - classes.weight
    return classes.first(int(np.count_nonzero(before * 100 < covered_pct * classes.total)))


class Kinds:
    """Nodes that are the same to every class: those with the same models and, where classes are given, with room when
    empty for the same of the large ones and, where those know memory, with as much on a card. `of_node` numbers them.

    `resource` is the host's that the classes name.
    """

    def __init__(self, cards: Cards, classes: Classes | None = None, resource: HostResource = PROCESSORS) -> None:
        self.resource = resource
        makes = makes_of(cards)
        host = makes.host(resource)
        rooms = _rooms(makes.seats, host, classes.large) if classes else [()] * len(makes.models)
        self.by_memory = classes is not None and len(classes.memory) > 0
        least = makes.memory.tolist() if self.by_memory else [0] * len(makes.models)
        sets = list(zip(makes.models, rooms, least, strict=True))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(sets))}
        of_make = np.array([numbers[key] for key in sets], dtype=np.int64)
        self.of_node = of_make[makes.of_node]
        self._models = tuple(tuple(cards.models[model] for model in models) for models, _, _ in numbers)
        self._bytes = np.array([size for _, _, size in numbers], dtype=np.int64)
        first = np.unique(of_make, return_index=True)[1]
        self._seats, self._host = makes.seats[first], host[first]

    def __len__(self) -> int:
        return len(self._models)

    def allowed(self, models: Iterable[str]) -> Bools:
        """Per class and kind of node, whether a card of it may be taken; a class that names no model may take any."""
        lines = [[not asked or _any(asked, has) for has in self._models] for asked in models]
        return np.array(lines, dtype=np.bool_).reshape(len(lines), len(self._models))

    def needs(self, classes: Classes) -> Ints:
        """Per class and kind of node, what a seat takes of the memory of its smallest card, in thousandths."""
        follows = np.broadcast_to(classes.milli[:, None], (len(classes), len(self)))
        sizes = np.maximum(self._bytes, 1)
        asked = -(-classes.memory[:, None] * WHOLE // sizes)
        needs: Ints = np.minimum(np.where(classes.memory[:, None] == FOLLOWS, follows, asked), _TOO_MUCH)
        return needs

    def need_of(self, shape: Shape) -> Ints:
        """The same of one shape."""
        one = np.array([shape.held_milli]), np.array([_memory_of(shape)])
        empty = np.zeros(1, dtype=np.int64)
        needs: Ints = np.minimum(self.needs(Classes(empty, one[0], empty, ("",), empty, one[1]))[0], WHOLE)
        return needs

    def hosts(self, large: Classes) -> Bools:
        """Per large class and kind of node, whether such a node could take a claim of it when empty."""
        room: Bools = _room(self._seats, self._host, large)
        return self.allowed(large.models) & room


def _memory_of(shape: Shape) -> int:
    return FOLLOWS if shape.whole or shape.memory_bytes is None else shape.memory_bytes


def _beyond(shape: Shape, model: str, size: int) -> bool:
    memory = _memory_of(shape) if shape.count and shape.held_milli else FOLLOWS
    named = shape.model is None or model_matches(shape.model, model)
    return named and memory <= size and memory * WHOLE > shape.held_milli * size


def _room(seats: Ints, host: Ints, large: Classes) -> Bools:
    enough: Bools = (seats >= large.count[:, None]) & (host >= large.host[:, None])
    return enough


def _rooms(seats: Ints, host: Ints, large: Classes) -> list[tuple[int, ...]]:
    """Per make, numbers of the large classes that it has room for when empty."""
    return [tuple(np.flatnonzero(line).tolist()) for line in _room(seats, host, large).T]


def _columns(keys: list[Key]) -> tuple[list[int], list[int], list[int]]:
    return [key[0] for key in keys], [key[1] for key in keys], [key[2] for key in keys]


def _any(asked: str, models: Iterable[str]) -> bool:
    return any(model_matches(asked, model) for model in models)


def whole_weights(counts: Iterable[float]) -> list[int]:
    """Weights as whole numbers: 0 for a count that is not positive (or no number), at least 1 for every other.

    A count that rounds to 0 would leave a class without weight, which no rule expects: a mean over such classes alone
    divides by zero. It happens to one old claim beside an array of 100,000.
    """
    # A NaN is not above 0 either.
    usable = [float(min(count, _MOST_SEEN)) if count > 0 else 0.0 for count in counts]
    total = sum(usable)
    if total <= _FINE and all(count.is_integer() for count in usable):
        return [int(count) for count in usable]
    # Divided by the total first: the scale itself is infinite where the total is tiny, and 0 where it is huge.
    return [max(1, round(count / total * _FINE)) if count else 0 for count in usable]
