"""Amounts per card and per node: what is free at an instant, and what a claim takes of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.columns import Ints

_EMPTY: Ints = np.empty(0, dtype=np.int64)


class SeatAmounts(NamedTuple):
    """The amounts of a claim, gang or reservation per card, and per node what goes with them."""

    rows: Ints
    milli: Ints
    sizes: Ints
    nodes: Ints = _EMPTY
    cpu_milli: Ints = _EMPTY
    host_bytes: Ints = _EMPTY
    #: Seats per card of `rows`, where one holder may have several.
    counts: Ints = _EMPTY
    #: Of partitions, each with its row.
    pieces: tuple[tuple[int, PartitionSlot], ...] = ()


class CapacityColumns(NamedTuple):
    """Compute and memory per card, and the resources per node: free amounts or differences."""

    milli: Ints
    sizes: Ints
    cpu_milli: Ints
    host_bytes: Ints

    def add_columns(self, other: CapacityColumns) -> CapacityColumns:
        """Return the sum of both."""
        return CapacityColumns(*(mine + its for mine, its in zip(self, other, strict=True)))

    def limit_to(self, taken: SeatAmounts) -> CapacityColumns:
        """Return only what these seats take of each card, and nothing of any other card."""
        milli = np.zeros_like(self.milli)
        sizes = np.zeros_like(self.sizes)
        np.add.at(milli, taken.rows, taken.milli)
        np.add.at(sizes, taken.rows, taken.sizes)
        milli, sizes = np.minimum(milli, self.milli), np.minimum(sizes, self.sizes)
        return CapacityColumns(milli, sizes, self.cpu_milli, self.host_bytes)

    def release_seats(self, taken: SeatAmounts) -> CapacityColumns:
        """Return what is free after these seats are released. The columns themselves do not change."""
        more = CapacityColumns(*(column.copy() for column in self))
        np.add.at(more.milli, taken.rows, taken.milli)
        np.add.at(more.sizes, taken.rows, taken.sizes)
        np.add.at(more.cpu_milli, taken.nodes, taken.cpu_milli)
        np.add.at(more.host_bytes, taken.nodes, taken.host_bytes)
        return more


def get_free_columns(free: FreeCapacity) -> CapacityColumns:
    """Return what is free now: the arrays of `FreeCapacity`. Read only."""
    return CapacityColumns(free.milli, free.size, free.cpu_milli, free.host_bytes)


def build_empty_columns(free: FreeCapacity) -> CapacityColumns:
    """Return what would be free if nothing ran."""
    cards = free.cards
    hosts = free.cards.hosts
    milli = np.full(len(cards), WHOLE, dtype=np.int64)
    if hosts is None:
        return CapacityColumns(milli, cards.memory_bytes, free.cpu_milli, free.host_bytes)
    return CapacityColumns(milli, cards.memory_bytes, hosts.cpu_milli, hosts.memory_bytes)


def find_excess(
    first: Ints, spare: Ints, second: Ints, other_spare: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return where either amount exceeds its spare amount, and by how much.

    Returns:
        Indexes, and the excess of each amount at those indexes.
    """
    # `Timeline.subtract_holds` returns its argument where nothing is held: nothing to compare then.
    if first is spare:
        return _EMPTY, _EMPTY, _EMPTY
    # What is already overdrawn counts as 0: hiding it again would hide other claims' capacity.
    ours = np.maximum(first - np.maximum(spare, 0), 0)
    others = np.maximum(second - np.maximum(other_spare, 0), 0)
    places = np.flatnonzero((ours > 0) | (others > 0))
    return places, ours[places], others[places]
