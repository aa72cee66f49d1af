"""How many claims of one shape there is room for, on columns of whatever instant, and one set of cards for them.

The placement of a claim that starts now is a policy's to choose; here it is only counted, or cards are picked for a
promise about later, where being sure comes before being pretty. Reads columns and changes none.
"""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.columns import Columns, Taken
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import UNLIMITED, Free
from gpupool.scheduling.snapshot import Ints


def slots(fit: Fit, free: Free, columns: Columns) -> Ints:
    """Per card, how many seats of the shape it can take; of partitions at most, since places are not looked at."""
    milli, sizes = np.maximum(columns.milli, 0), np.maximum(columns.sizes, 0)
    if fit.shape.whole:
        found = (columns.milli >= WHOLE) & (columns.sizes >= free.cards.memory_bytes)
        return np.where(fit.fixed == FITS, found, False).astype(np.int64)
    held = fit.shape.held_milli
    by_compute = milli // held if held else np.full(len(milli), WHOLE, dtype=np.int64)
    by_memory = np.where(fit.need > 0, sizes // np.maximum(fit.need, 1), WHOLE)
    return np.where(fit.fixed == FITS, np.minimum(by_compute, by_memory), 0)


def most(fit: Fit, free: Free, columns: Columns) -> Ints:
    """Per node, at most how many claims of the shape fit; exact for claims of one card and for whole cards."""
    seats = slots(fit, free, columns)
    claims = _by_node(free, seats) // max(fit.shape.count, 1)
    claims[free.count_by_node(seats > 0) < fit.shape.count] = 0
    return np.minimum(claims, _by_host(fit, columns))


def room(fit: Fit, free: Free, columns: Columns) -> bool:
    """Whether one claim of the shape fits somewhere; exact."""
    return bool((most(fit, free, columns) > 0).any())


def pick(fit: Fit, free: Free, columns: Columns, claims: int, first: Ints | None = None) -> Taken:
    """Cards for so many claims of the shape, or for as many as fit.

    Nodes with the most of `first` go first (cards that are to be among the chosen), then those that take the most
    claims, so that few nodes are touched; within a node cards with the most room, which leaves none unused that count.
    """
    seats, limit = slots(fit, free, columns), most(fit, free, columns)
    wanted = np.zeros(len(seats), dtype=np.int64) if first is None else first
    order = np.lexsort((-limit, -_by_node(free, wanted)))
    given = np.zeros(len(seats), dtype=np.int64)
    placed: list[tuple[int, int]] = []
    for node in order[limit[order] > 0]:
        if (left := claims - sum(count for _, count in placed)) <= 0:
            break
        rows = free.of_node(int(node))
        placed.append((int(node), _fill(seats, given, wanted, rows, min(left, int(limit[node])), fit.shape.count)))
    return _taken(fit, given, placed)


def claims_in(taken: Taken, count: int) -> int:
    """How many claims of `count` cards each what was picked is for."""
    return len(taken.rows) and int(taken.counts.sum()) // max(count, 1)


def _fill(seats: Ints, given: Ints, first: Ints, rows: Ints, claims: int, count: int) -> int:
    """Seat claims one by one on the node's cards with the most room; how many found it."""
    for done in range(claims):
        left = seats[rows] - given[rows]
        keys = (-left, -first[rows]) if count == 1 else (-first[rows], -left)
        best = rows[np.lexsort(keys)]
        best = best[seats[best] > given[best]][:count]
        if len(best) < count:
            return done
        given[best] += 1
    return claims


def _taken(fit: Fit, given: Ints, placed: list[tuple[int, int]]) -> Taken:
    rows, claims = np.flatnonzero(given), [(node, count) for node, count in placed if count]
    times, nodes = given[rows], np.array([node for node, _ in claims], dtype=np.int64)
    counts = np.array([count for _, count in claims], dtype=np.int64)
    cpu, size = counts * fit.shape.cpu_milli, counts * fit.shape.host_bytes
    return Taken(rows, times * fit.shape.held_milli, times * fit.need[rows], nodes, cpu, size, times)


def _by_node(free: Free, column: Ints) -> Ints:
    sums = np.bincount(free.cards.node, weights=column, minlength=len(free.cards.nodes))
    return sums.astype(np.int64)


def _by_host(fit: Fit, columns: Columns) -> Ints:
    """Per node, how many claims its processors and main memory are enough for."""
    limits = np.full(len(columns.cpu_milli), UNLIMITED, dtype=np.int64)
    for asked, column in ((fit.shape.cpu_milli, columns.cpu_milli), (fit.shape.host_bytes, columns.host_bytes)):
        if asked:
            limits = np.minimum(limits, np.maximum(column, 0) // asked)
    return limits
