"""What becomes dear while a pool fills: rare models, and hosts with room for claims of several whole cards.

Prices come from counting alone: what is still likely to be asked for while the rest of the pool fills, against what is
still there for it. They are set at the start and each time a part of the pool has been taken or given back, so that
scores stay comparable in between. All in whole numbers.
"""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints

STEP_PCT = 2
"""Prices are set anew when that much of the pool's compute has changed hands."""

_ONE = 1_000_000
"""A shortage of 1: as much is expected as there is."""

_TENTH_OF_THOUSANDTHS = 10_000

_NEVER_FULL = _ONE + 100
"""Keeps the quotient finite where hosts are short from the beginning."""


class Prices:
    """`toll` per kind of node in thousandths of a tenth of the compute asked for; `price` per lost slot of a group.

    A group of hosts has `count` free cards and `cpu` milli-cores to a slot and is `allowed` on some kinds of nodes:
    every claim of two whole cards or more that is expected, however rare, by cards and models.
    """

    def __init__(self, free: Free, kinds: Kinds, classes: Classes) -> None:
        self._free, self._kinds = free, kinds
        self._demand = int((classes.count * classes.milli * classes.weight).sum())
        self._typed, self._typed_on = _typed(classes, kinds)
        self.count, self.cpu, self._often, self.allowed = _groups(classes, kinds)
        self.toll = np.zeros(len(kinds), dtype=np.int64)
        self.price = np.zeros(len(self.count), dtype=np.int64)
        self._left = np.maximum(free.cells, 0).sum(axis=1)
        self.whole = (free.cells >= WHOLE).sum(axis=1)
        self._total = int(self._left.sum())
        self._read, self._set_at, self.epoch = free.now(), -1, 0
        cards = WHOLE * int(free.open.sum())
        self._step = max(1, cards * STEP_PCT // 100)
        self._at_first = self._shortage(cards, self._empty_slots())
        self._set()

    def watch(self) -> int:
        """The epoch, after a look at what has changed."""
        if self._read != self._free.now():
            self._look(self._free.changed(self._read))
            self._read = self._free.now()
            if abs(self._total - self._set_at) >= self._step:
                self._set()
        return self.epoch

    def tolls(self, asked_milli: int) -> Ints:
        """What a claim to so much compute pays on a node of each kind."""
        tolls: Ints = self.toll * asked_milli // _TENTH_OF_THOUSANDTHS
        return tolls

    def slots(self, whole: Ints, cpu_milli: Ints, kinds: Ints) -> Ints:
        """Per node and group, how many of its claims the node has room for."""
        by_cards = whole[:, None] // self.count
        by_cpu = cpu_milli[:, None] // np.maximum(self.cpu, 1)
        return np.where(self.allowed[:, kinds].T, np.minimum(by_cards, np.where(self.cpu > 0, by_cpu, by_cards)), 0)

    def lost(self, nodes: Ints, fewer: Ints, cpu_milli: int) -> Ints:
        """Per node, the price of the slots that go with so many free cards (per node) and processors."""
        kinds, whole, cpu = self._kinds.of_node[nodes], self.whole[nodes], self._free.cpu_milli[nodes]
        after = self.slots(np.maximum(whole - fewer, 0), cpu - cpu_milli, kinds)
        lost: Ints = (self.slots(whole, cpu, kinds) - after) @ self.price
        return lost

    def _look(self, nodes: Ints) -> None:
        cells = self._free.cells[nodes]
        left = np.maximum(cells, 0).sum(axis=1)
        self._total += int((left - self._left[nodes]).sum())
        self._left[nodes] = left
        self.whole[nodes] = (cells >= WHOLE).sum(axis=1)

    def _set(self) -> None:
        self._set_at = self._total
        self.epoch += 1
        self.toll[:] = self._tolls()
        short = self._shortage(self._total, self.slots(self.whole, self._free.cpu_milli, self._kinds.of_node))
        for group, (now, first) in enumerate(zip(short, self._at_first, strict=True)):
            more, most = max(0, now - first), _NEVER_FULL - first
            self.price[group] = WHOLE * int(self.count[group]) * more * more // (most * most)

    def _tolls(self) -> list[int]:
        """Thousandths by which a kind's models are wanted by those who can use no other: 1000 at most."""
        of_kind = np.bincount(self._kinds.of_node, weights=self._left, minlength=len(self._kinds)).astype(np.int64)
        tolls = [0] * len(self._kinds)
        for demand, kinds in zip(self._typed, self._typed_on, strict=True):
            there = max(WHOLE, int(of_kind[kinds].sum()))
            for kind in np.flatnonzero(kinds):
                tolls[kind] += WHOLE * demand * self._total // (self._demand * there)
        return [min(WHOLE, toll) for toll in tolls]

    def _shortage(self, left_milli: int, slots: Ints) -> list[int]:
        """Per group, how many are expected while so much is filled, against the slots; in millionths, 1 at most."""
        there = slots.sum(axis=0).tolist()
        arriving = (_ONE * often * left_milli for often in self._often.tolist())
        return [min(_ONE, come // (self._demand * max(1, have))) for come, have in zip(arriving, there, strict=True)]

    def _empty_slots(self) -> Ints:
        cards, hosts = self._free.cards, self._free.cards.hosts
        whole = np.bincount(cards.node[self._free.open], minlength=len(cards.nodes))
        cpu = self._free.cpu_milli if hosts is None else hosts.cpu_milli
        return self.slots(whole, cpu, self._kinds.of_node)


def _typed(classes: Classes, kinds: Kinds) -> tuple[list[int], list[Bools]]:
    """Demand in milli-devices by set of models, and the kinds of nodes that have one of them."""
    demand: dict[str, int] = {}
    for models, milli, count, weight in zip(classes.models, classes.milli, classes.count, classes.weight, strict=True):
        if models and count:
            demand[models] = demand.get(models, 0) + int(milli * count * weight)
    return list(demand.values()), list(kinds.allowed(demand))


def _groups(classes: Classes, kinds: Kinds) -> tuple[Ints, Ints, Ints, Bools]:
    """Cards, mean processors, how often, and allowed kinds of nodes, by group."""
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for number in np.flatnonzero((classes.count > 1) & (classes.milli == WHOLE)):
        key = int(classes.count[number]), classes.models[number]
        often, cpu = found.get(key, (0, 0))
        weight = int(classes.weight[number])
        found[key] = often + weight, cpu + weight * int(classes.cpu_milli[number])
    cards = np.array([size for size, _ in found], dtype=np.int64)
    times = np.array([many for many, _ in found.values()], dtype=np.int64)
    mean = np.array([total // many for many, total in found.values()], dtype=np.int64)
    return cards, mean, times, kinds.allowed(models for _, models in found)
