"""The expected demand as a policy sees it: few classes, and how often each occurs.

A class has one resource of the host (`host_resource`), cards, compute per card and allowed models.
Labels and other conditions that only filter are left out, as in "Beware of Fragmentation" (Weng et
al., USENIX ATC 2023). Memory of cards is left out as well unless a claim asks for more of it than
of compute (`is_memory_relevant`), because compute then always runs out first. Weights are integers,
so their sums are exact and equal on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import compress
from operator import mul

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import is_model_match
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY, PROCESSORS, HostResource
from gpupool.scheduling.scoring.node_types import find_node_types
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: So much of what is expected the typical classes cover, most frequent first (the paper's value).
COVERED_PCT = 95

#: Memory in proportion to compute; so it is of whole cards, whatever they ask for.
FOLLOWS = -1

#: Thousandths of memory that no card has.
_TOO_MUCH = WHOLE + 1

#: The sum of weights where counts are not whole numbers (a decayed memory's are not).
_FINE = 1_000_000

#: Higher counts weigh no more; so no sum of them is infinite.
_MOST_SEEN = 1e15

#: Of its host, milli per card, cards, models: the order in which equal counts follow each other,
#: largest first.
Key = tuple[int, int, int, str]


@dataclass(frozen=True)
class DemandClasses:
    """One entry per class, most frequent first; a class without cards has count 0 and milli 0."""

    #: Of the host's resource that counts, in its unit.
    host: Ints
    milli: Ints
    count: Ints
    #: As in a shape, `|` between several; empty is any.
    models: tuple[str, ...]
    weight: Ints
    #: Bytes per card, or FOLLOWS; empty where it plays no part.
    memory: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.models)

    @property
    def total(self) -> int:
        """The sum of the weights."""
        return int(self.weight.sum())

    def select_first(self, number: int) -> DemandClasses:
        """Return the most frequent classes."""
        return self.select(np.arange(len(self)) < number)

    def select(self, chosen: Bools) -> DemandClasses:
        """Return the classes of a mask."""
        return DemandClasses(
            self.host[chosen],
            self.milli[chosen],
            self.count[chosen],
            tuple(compress(self.models, chosen)),
            self.weight[chosen],
            self.memory[chosen] if len(self.memory) else self.memory,
        )

    @property
    def large(self) -> DemandClasses:
        """The classes that ask for several whole cards of one node."""
        return self.select((self.count > 1) & (self.milli == WHOLE))


def build_class_key(shape: Shape, resource: HostResource = PROCESSORS) -> Key:
    """Return the class of a shape."""
    milli = shape.held_milli if shape.count else 0
    return resource.get_asked(shape), milli, shape.count if milli else 0, shape.model or ""


def build_classes(
    expected: ExpectedDemand, *, by_memory: bool = False, resource: HostResource = PROCESSORS
) -> DemandClasses:
    """Return every expected class, most frequent first.

    Args:
        expected: The expected shapes.
        by_memory: Whether shapes that differ in memory are different classes.
        resource: The resource of the host that counts.
    """
    seen: Counter[tuple[Key, int]] = Counter()
    for shape, weight in zip(expected.shapes, round_weights(expected.counts), strict=True):
        if weight:
            seen[build_class_key(shape, resource), _get_memory(shape) if by_memory else 0] += weight
    # By the key too: equal counts must have one order, because streams are drawn by position.
    ordered = sorted(seen.items(), key=lambda item: (item[1], item[0]), reverse=True)
    numbers = list[tuple[int, int, int, int, int]]()
    models = list[str]()
    for ((host, milli, count, model), memory), weight in ordered:
        numbers.append((host, milli, count, weight, memory))
        models.append(model)
    table = np.array(numbers, dtype=np.int64).reshape(-1, 5).T.copy()
    memories = table[4] if by_memory else table[4][:0]
    return DemandClasses(table[0], table[1], table[2], tuple(models), table[3], memories)


def is_memory_relevant(expected: ExpectedDemand, cards: CardTable) -> bool:
    """Return whether an expected claim asks for more of a card's memory than of its compute.

    Only cards that the claim may take count. If there is none, compute always runs out before
    memory.
    """
    for model, size in find_node_types(cards).card_sizes:
        name = cards.models[model]
        if any(_exceeds_compute(shape, name, size) for shape in expected.shapes):
            return True
    return False


def find_scarcer_resource(expected: ExpectedDemand, cards: CardTable) -> HostResource:
    """Return main memory if claims ask for a larger part of it than of processors, else processors.

    Totals of the pool count, not free amounts: the answer must not depend on when a policy started.
    """
    if cards.hosts is None:
        return PROCESSORS
    by_memory = _sum_asked(expected, MAIN_MEMORY) * int(cards.hosts.cpu_milli.sum())
    by_processors = _sum_asked(expected, PROCESSORS) * int(cards.hosts.memory_bytes.sum())
    return MAIN_MEMORY if by_memory > by_processors else PROCESSORS


def is_short(expected: ExpectedDemand, cards: CardTable, resource: HostResource) -> bool:
    """Return whether claims ask for a larger part of the hosts' resource than of all compute.

    If so, hosts are used up before cards are.
    """
    there = resource.get_capacity(cards)
    if there is None:
        return False
    weights = round_weights(expected.counts)
    shapes = zip(expected.shapes, weights, strict=True)
    compute = sum(weight * shape.count * shape.held_milli for shape, weight in shapes)
    return _sum_asked(expected, resource) * WHOLE * len(cards) > compute * int(there.sum())


def _sum_asked(expected: ExpectedDemand, resource: HostResource) -> int:
    asked = map(resource.get_asked, expected.shapes)
    # Integers of any size: no order of adding them matters.
    return sum(map(mul, round_weights(expected.counts), asked))


def select_typical(classes: DemandClasses, covered_pct: int = COVERED_PCT) -> DemandClasses:
    """Return the most frequent classes, as few as cover that percentage of all claims."""
    before = np.cumsum(classes.weight) - classes.weight
    return classes.select_first(int(np.count_nonzero(before * 100 < covered_pct * classes.total)))


class NodeKinds:
    """Groups of nodes that are equal for every class; `of_node` numbers them.

    Nodes of one kind have the same models. If classes are given, empty nodes of one kind have room
    for the same large classes, and, if the classes have memory, the same memory per card.

    Args:
        cards: The cards of the pool.
        classes: The expected classes.
        resource: The resource of the host that the classes name.
    """

    def __init__(
        self,
        cards: CardTable,
        classes: DemandClasses | None = None,
        resource: HostResource = PROCESSORS,
    ) -> None:
        self.resource = resource
        makes = find_node_types(cards)
        host = makes.get_host(resource)
        rooms = (
            _list_rooms(makes.seats, host, classes.large) if classes else [()] * len(makes.models)
        )
        self.by_memory = classes is not None and len(classes.memory) > 0
        least = makes.memory.tolist() if self.by_memory else [0] * len(makes.models)
        sets = list(zip(makes.models, rooms, least, strict=True))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(sets))}
        of_make = np.array([numbers[key] for key in sets], dtype=np.int64)
        self.of_node = of_make[makes.of_node]
        names = []
        for models, _, _ in numbers:
            names.append(tuple(cards.models[model] for model in models))
        self._models = tuple(names)
        self._bytes = np.array([size for _, _, size in numbers], dtype=np.int64)
        first = np.unique(of_make, return_index=True)[1]
        self._seats = makes.seats[first]
        self._host = host[first]

    def __len__(self) -> int:
        return len(self._models)

    def find_allowed(self, models: Iterable[str]) -> Bools:
        """Return per class and kind whether the class may take a card there."""
        lines = []
        for asked in models:
            lines.append([not asked or _is_any_match(asked, has) for has in self._models])
        return np.array(lines, dtype=np.bool_).reshape(len(lines), len(self._models))

    def compute_needs(self, classes: DemandClasses) -> Ints:
        """Return per class and kind the part of the smallest card's memory that a seat takes.

        The unit is thousandths; a seat larger than the card has a value above WHOLE.
        """
        follows = np.broadcast_to(classes.milli[:, None], (len(classes), len(self)))
        sizes = np.maximum(self._bytes, 1)
        # Rounded up, and by the smallest card of the kind: a seat never seems to fit where it does
        # not.
        asked = -(-classes.memory[:, None] * WHOLE // sizes)
        needs: Ints = np.minimum(
            np.where(classes.memory[:, None] == FOLLOWS, follows, asked), _TOO_MUCH
        )
        return needs

    def compute_need(self, shape: Shape) -> Ints:
        """Return per kind the part of a card's memory that a seat takes, in thousandths."""
        one = np.array([shape.held_milli]), np.array([_get_memory(shape)])
        empty = np.zeros(1, dtype=np.int64)
        needs: Ints = np.minimum(
            self.compute_needs(DemandClasses(empty, one[0], empty, ("",), empty, one[1]))[0], WHOLE
        )
        return needs

    def find_hosts(self, large: DemandClasses) -> Bools:
        """Return per large class and kind whether an empty node of it could take a claim."""
        room: Bools = _find_room(self._seats, self._host, large)
        return self.find_allowed(large.models) & room


def _get_memory(shape: Shape) -> int:
    return FOLLOWS if shape.is_whole or shape.memory_bytes is None else shape.memory_bytes


def _exceeds_compute(shape: Shape, model: str, size: int) -> bool:
    memory = _get_memory(shape) if shape.count and shape.held_milli else FOLLOWS
    named = shape.model is None or is_model_match(shape.model, model)
    return named and memory <= size and memory * WHOLE > shape.held_milli * size


def _find_room(seats: Ints, host: Ints, large: DemandClasses) -> Bools:
    enough: Bools = (seats >= large.count[:, None]) & (host >= large.host[:, None])
    return enough


def _list_rooms(seats: Ints, host: Ints, large: DemandClasses) -> list[tuple[int, ...]]:
    """Return per node type the large classes for which it has room when empty."""
    return [tuple(np.flatnonzero(line).tolist()) for line in _find_room(seats, host, large).T]


def _is_any_match(asked: str, models: Iterable[str]) -> bool:
    return any(is_model_match(asked, model) for model in models)


def round_weights(counts: Iterable[float]) -> list[int]:
    """Weights as whole numbers: 0 for a count that is not positive (or no number), at least 1 for
    every other.

    A count that rounds to 0 would leave a class without weight, which no rule expects: a mean over
    such classes alone divides by zero. It happens to one old claim beside an array of 100,000.
    """
    # A NaN is not above 0 either.
    usable = [float(min(count, _MOST_SEEN)) if count > 0 else 0.0 for count in counts]
    total = sum(usable)
    if total <= _FINE and all(count.is_integer() for count in usable):
        return [int(count) for count in usable]
    # Divided by the total first: the scale itself is infinite where the total is tiny, and 0 where
    # it is huge.
    return [max(1, round(count / total * _FINE)) if count else 0 for count in usable]
