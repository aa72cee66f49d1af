"""Amounts by card and by node: what is free at some instant, and what somebody takes of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.partition import Placement as Place
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Ints

_EMPTY: Ints = np.empty(0, dtype=np.int64)


class Taken(NamedTuple):
    """Seats of a claim, a gang or a reservation: amounts per card, and per node what goes with them."""

    rows: Ints
    milli: Ints
    sizes: Ints
    nodes: Ints = _EMPTY
    cpu_milli: Ints = _EMPTY
    host_bytes: Ints = _EMPTY
    counts: Ints = _EMPTY
    """Seats per card of `rows`, where one holder may have several."""
    pieces: tuple[tuple[int, Place], ...] = ()
    """Of partitions, each with its row."""


class Columns(NamedTuple):
    """Compute and memory per card, processors and main memory per node: what is free, or how much more or less."""

    milli: Ints
    sizes: Ints
    cpu_milli: Ints
    host_bytes: Ints

    def plus(self, other: Columns) -> Columns:
        return Columns(*(mine + its for mine, its in zip(self, other, strict=True)))

    def only(self, taken: Taken) -> Columns:
        """As much of each card as is taken there, where there is that much, and nothing of any other."""
        milli, sizes = np.zeros_like(self.milli), np.zeros_like(self.sizes)
        np.add.at(milli, taken.rows, taken.milli)
        np.add.at(sizes, taken.rows, taken.sizes)
        milli, sizes = np.minimum(milli, self.milli), np.minimum(sizes, self.sizes)
        return Columns(milli, sizes, self.cpu_milli, self.host_bytes)

    def given(self, taken: Taken) -> Columns:
        """What there is when this is given back."""
        more = Columns(*(column.copy() for column in self))
        np.add.at(more.milli, taken.rows, taken.milli)
        np.add.at(more.sizes, taken.rows, taken.sizes)
        np.add.at(more.cpu_milli, taken.nodes, taken.cpu_milli)
        np.add.at(more.host_bytes, taken.nodes, taken.host_bytes)
        return more


def free_columns(free: Free) -> Columns:
    """What is free now: the working copy's own columns, to be read only."""
    return Columns(free.milli, free.size, free.cpu_milli, free.host_bytes)


def empty_columns(free: Free) -> Columns:
    """What would be free if nothing ran."""
    cards, hosts = free.cards, free.cards.hosts
    milli = np.full(len(cards), WHOLE, dtype=np.int64)
    if hosts is None:
        return Columns(milli, cards.memory_bytes, free.cpu_milli, free.host_bytes)
    return Columns(milli, cards.memory_bytes, hosts.cpu_milli, hosts.memory_bytes)


def beyond(first: Ints, spare: Ints, second: Ints, other_spare: Ints) -> tuple[Ints, Ints, Ints]:
    """Where there is more of either amount than what is spare of it, and how much more of each."""
    if first is spare:
        return _EMPTY, _EMPTY, _EMPTY
    ours, others = np.maximum(first - np.maximum(spare, 0), 0), np.maximum(second - np.maximum(other_spare, 0), 0)
    places = np.flatnonzero((ours > 0) | (others > 0))
    return places, ours[places], others[places]
