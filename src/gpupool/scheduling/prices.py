"""What becomes dear as a pool fills: rare models, and hosts with room for claims of several whole cards.

A price is what is at stake times the chance that those who are still to come and can use nothing else will want more
than there is. The chance comes from counting alone: what is expected while the rest of the pool fills, against what is
there. Prices are set when a plan starts and each time a part of the pool has changed hands since, so that scores stay
comparable in between. They depend on what is free at that start and on what the plan has done since, never on what was
before; and they are rounded, so that most plans find the scores of the one before still valid.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints

STEP_PCT = 2
"""Prices are set anew when that much of the pool's compute has changed hands; 5 or 10 do nearly as well."""

RETURNING_PCT = 25
"""Where claims end, hosts are kept for those too who come while that much of the pool is given back (15 to 40 do)."""

SPARE_PCT = 4
"""The same where nothing ends: while a pool fills, what fails first are claims to whole hosts."""

BITS = 6
"""Prices are told apart by so many binary digits: one that moved with every claim would have every node rated anew."""

_TENTH_OF_THOUSANDTHS = 10_000


class Prices:
    """`toll` per kind of node in thousandths of a tenth of the compute asked for; `price` per lost slot of a group.

    A group is all large classes of one number of cards that the same kinds of nodes can take when empty (`allowed`);
    `count` cards and `host` of the host's resource, their mean, are a slot. What lives on fewer kinds lives on these
    alone and counts here too: the hosts of a group must be enough for all of them.
    """

    def __init__(self, free: Free, kinds: Kinds, classes: Classes, *, ending: bool = False) -> None:
        self._free, self._kinds = free, kinds
        self._host_free = kinds.resource.free_of(free)
        self._demand = max(1, int((classes.count * classes.milli * classes.weight).sum()))
        self._typed_on, self._typed = _typed(classes, kinds)
        self.count, self.host, self._often, self.allowed = _groups(classes.large, kinds)
        self.toll = np.zeros(len(kinds), dtype=np.int64)
        self.price = np.zeros(len(self.count), dtype=np.int64)
        self._begin_sums()
        self._read, self._at, self._moved, self.epoch = free.now(), free.moved, 0, 0
        capacity = WHOLE * int(free.open.sum())
        self._step = max(1, capacity * STEP_PCT // 100)
        self._returning = capacity * (RETURNING_PCT if ending else SPARE_PCT) // 100
        self._set()

    def restart(self) -> None:
        """A plan starts: prices are those that would be set if nothing had been before."""
        self._look()
        self._set()

    def watch(self) -> int:
        """The epoch, after a look at what has changed where it may be enough to set prices anew.

        When it looks depends on what was taken and given back since the last look alone.
        """
        if self._moved + self._free.moved - self._at >= self._step:
            self._look()
            if self._moved >= self._step:
                self._set()
        return self.epoch

    def tolls(self, asked_milli: int) -> Ints:
        """What a claim to so much compute pays on a node of each kind."""
        tolls: Ints = self.toll * asked_milli // _TENTH_OF_THOUSANDTHS
        return tolls

    def slots(self, whole: Ints, host: Ints, kinds: Ints) -> Ints:
        """Per node and group, how many of its claims the node has room for."""
        by_cards = whole[:, None] // self.count
        by_host = host[:, None] // np.maximum(self.host, 1)
        return np.where(self.allowed[:, kinds].T, np.minimum(by_cards, np.where(self.host > 0, by_host, by_cards)), 0)

    def lost(self, nodes: Ints, fewer: Ints, asked: int) -> Ints:
        """Per node, the price of the slots that go with so many free cards (per node) and so much of the host."""
        kinds, whole, host = self._kinds.of_node[nodes], self._whole(nodes), self._host_free[nodes]
        after = self.slots(np.maximum(whole - fewer, 0), host - asked, kinds)
        lost: Ints = (self.slots(whole, host, kinds) - after) @ self.price
        return lost

    def _whole(self, nodes: Ints | slice = slice(None)) -> Ints:
        whole: Ints = (self._free.cells[nodes] >= WHOLE).sum(axis=1)
        return whole

    def _begin_sums(self) -> None:
        """By node what is left of its compute and how many slots it has, and the sums of both, kept by `_look`."""
        kinds = self._kinds.of_node
        self._left = np.maximum(self._free.cells, 0).sum(axis=1)
        self._left_by_kind = np.zeros(len(self._kinds), dtype=np.int64)
        np.add.at(self._left_by_kind, kinds, self._left)
        self._slots = self.slots(self._whole(), self._host_free, kinds)
        self._there = self._slots.sum(axis=0)

    def _look(self) -> None:
        free, nodes = self._free, self._free.changed(self._read)
        self._read, self._at = free.now(), free.moved
        if not len(nodes):
            return
        kinds = self._kinds.of_node[nodes]
        left = np.maximum(free.cells[nodes], 0).sum(axis=1)
        more = left - self._left[nodes]
        self._moved += int(np.abs(more).sum())
        np.add.at(self._left_by_kind, kinds, more)
        self._left[nodes] = left
        if len(self.count):
            slots = self.slots(self._whole(nodes), self._host_free[nodes], kinds)
            self._there += (slots - self._slots[nodes]).sum(axis=0)
            self._slots[nodes] = slots

    def _set(self) -> None:
        """`coming`: how many times all that is expected will come while the rest of the pool fills; `longer`: while
        a part of it is given back as well. The epoch is another one only where a price is."""
        self._moved = 0
        all_left = int(self._left_by_kind.sum())
        coming = all_left / self._demand
        longer = (all_left + self._returning) / self._demand
        price, toll = np.zeros_like(self.price), np.zeros(len(self.toll))
        for group, (often, slots) in enumerate(zip(self._often.tolist(), self._there.tolist(), strict=True)):
            short = chance_of_want(often * longer, often * longer, slots - 0.5)
            most = WHOLE * int(self.count[group])
            price[group] = min(most, coarse(round(most * short)))
        for kinds, (demand, square) in zip(self._typed_on, self._typed, strict=True):
            left = float(self._left_by_kind[kinds].sum())
            toll[kinds] += chance_of_want(demand * coming, square * coming, left)
        tolls = np.array([min(WHOLE, coarse(round(WHOLE * min(one, 1.0)))) for one in toll.tolist()], dtype=np.int64)
        if self.epoch and np.array_equal(price, self.price) and np.array_equal(tolls, self.toll):
            return
        self.epoch += 1
        self.price[:] = price
        self.toll[:] = tolls


def coarse(price: int) -> int:
    """Rounded to BITS binary digits.

    >>> coarse(0), coarse(13), coarse(1000), coarse(8000)
    (0, 13, 1008, 8064)
    """
    dropped = max(0, price.bit_length() - BITS)
    return (price + (1 << dropped >> 1)) >> dropped << dropped


def chance_of_want(mean: float, variance: float, there: float) -> float:
    """The chance that at least so much is wanted, by the normal distribution; 0 where nothing is expected.

    >>> chance_of_want(9.0, 9.0, 9.0), round(chance_of_want(9.0, 9.0, 12.0), 3), chance_of_want(0.0, 0.0, 0.0)
    (0.5, 0.159, 0.0)
    """
    return 0.5 * math.erfc((there - mean) / math.sqrt(2 * variance)) if variance > 0 else 0.0


def _typed(classes: Classes, kinds: Kinds) -> tuple[list[Bools], list[tuple[int, int]]]:
    """By set of kinds that some classes are bound to by model: the set, demand of all that live in it and squares of it
    (in milli-devices; a sum of single claims varies by the sum of their squares)."""
    sums: dict[tuple[bool, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    columns = (classes.milli * classes.count, classes.weight, kinds.allowed(classes.models))
    for milli, weight, on in zip(*(column.tolist() for column in columns), strict=True):
        if milli and any(on) and not all(on):
            demand, square = sums[tuple(on)]
            sums[tuple(on)] = demand + milli * weight, square + milli * milli * weight
    own = list(sums.items())
    within = ([both for one, both in own if _inside(one, on)] for on in sums)
    return [np.array(on) for on in sums], [(sum(d for d, _ in some), sum(q for _, q in some)) for some in within]


def _groups(large: Classes, kinds: Kinds) -> tuple[Ints, Ints, Ints, Bools]:
    """By group: cards, mean of the host's resource, how often (with those that live on fewer kinds), allowed kinds."""
    found: dict[tuple[int, tuple[bool, ...]], tuple[int, int]] = defaultdict(lambda: (0, 0))
    columns = (column.tolist() for column in (large.count, large.host, large.weight, kinds.hosts(large)))
    for count, host, weight, on in zip(*columns, strict=True):
        if any(on) and weight > 0:
            often, total = found[count, tuple(on)]
            found[count, tuple(on)] = often + weight, total + weight * host
    own = {group: times for group, (times, _) in found.items()}
    cards = np.array([count for count, _ in found], dtype=np.int64)
    mean = np.array([total // times for times, total in found.values()], dtype=np.int64)
    within = np.array([_within(group, own) for group in found], dtype=np.int64)
    return cards, mean, within, np.array([on for _, on in found], dtype=np.bool_).reshape(len(found), len(kinds))


def _within(group: tuple[int, tuple[bool, ...]], own: Mapping[tuple[int, tuple[bool, ...]], int]) -> int:
    """How often claims of the group's size come that must live on its hosts."""
    count, on = group
    return sum(often for (size, its), often in own.items() if size == count and _inside(its, on))


def _inside(inner: Sequence[bool], outer: Sequence[bool]) -> bool:
    return all(there or not here for here, there in zip(inner, outer, strict=True))
