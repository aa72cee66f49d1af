"""How many claims of a shape fit on columns of any instant, and a safe choice of cards for them.

A policy chooses the cards of a claim that starts now. This module only counts, or picks cards for a
promised start, where safety matters more than quality. It changes no column.
"""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.capacity_columns import CapacityColumns, SeatAmounts
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import UNLIMITED, FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints


def count_seats(fit: ClaimFit, free: FreeCapacity, columns: CapacityColumns) -> Ints:
    """Return per card how many seats of the shape fit; an upper bound for partitions."""
    milli = np.maximum(columns.milli, 0)
    sizes = np.maximum(columns.sizes, 0)
    usable: Bools = fit.fixed == FITS
    if fit.shape.owner or free.owners.is_used:
        closed = free.owners.find_closed(fit.shape.owner, slice(None), columns.milli, columns.sizes)
        usable &= ~closed
    if fit.shape.is_whole:
        found = (columns.milli >= WHOLE) & (columns.sizes >= free.untouched_bytes)
        return np.where(usable, found, False).astype(np.int64)
    held = fit.shape.held_milli
    by_compute = milli // held if held else np.full(len(milli), WHOLE, dtype=np.int64)
    by_memory = np.where(fit.need > 0, sizes // np.maximum(fit.need, 1), WHOLE)
    return np.where(usable, np.minimum(by_compute, by_memory), 0)


def count_claims_by_node(fit: ClaimFit, free: FreeCapacity, columns: CapacityColumns) -> Ints:
    """Return per node an upper bound of claims that fit; exact for one card and for whole cards."""
    seats = count_seats(fit, free, columns)
    claims = _sum_by_node(free, seats) // max(fit.shape.count, 1)
    claims[free.count_cards_by_node(seats > 0) < fit.shape.count] = 0
    return np.minimum(claims, _count_by_host(fit, columns))


def has_room(fit: ClaimFit, free: FreeCapacity, columns: CapacityColumns) -> bool:
    """Return whether one claim of the shape fits on any node; exact."""
    return bool((count_claims_by_node(fit, free, columns) > 0).any())


def pick_cards(
    fit: ClaimFit,
    free: FreeCapacity,
    columns: CapacityColumns,
    claims: int,
    first: Ints | None = None,
) -> SeatAmounts:
    """Pick cards for several claims of the shape.

    Nodes with the most of `first` come first, then nodes that take the most claims, so that few
    nodes are used. Within a node the cards with the most room come first.

    Args:
        fit: The filter's result for the shape.
        free: What is free now, for the layout of the cards.
        columns: What is free at the instant in question.
        claims: How many claims to seat.
        first: Per card, how many seats should be on it if possible.

    Returns:
        The amounts, for as many claims as fit.
    """
    seats = count_seats(fit, free, columns)
    limit = count_claims_by_node(fit, free, columns)
    wanted = np.zeros(len(seats), dtype=np.int64) if first is None else first
    order = np.lexsort((-limit, -_sum_by_node(free, wanted)))
    given = np.zeros(len(seats), dtype=np.int64)
    placed: list[tuple[int, int]] = []
    for node in order[limit[order] > 0]:
        if (left := claims - sum(count for _, count in placed)) <= 0:
            break
        rows = free.get_node_rows(int(node))
        placed.append(
            (
                int(node),
                _seat_claims(
                    seats, given, wanted, rows, min(left, int(limit[node])), fit.shape.count
                ),
            )
        )
    return _build_amounts(fit, given, placed)


def count_claims(taken: SeatAmounts, count: int) -> int:
    """Return how many claims of `count` cards each the picked amounts are for."""
    return len(taken.rows) and int(taken.counts.sum()) // max(count, 1)


def _seat_claims(seats: Ints, given: Ints, first: Ints, rows: Ints, claims: int, count: int) -> int:
    """Seat claims one by one on the node's cards with the most room; return how many were seated."""
    for done in range(claims):
        left = seats[rows] - given[rows]
        keys = (-left, -first[rows]) if count == 1 else (-first[rows], -left)
        # One card per claim: the card with most room first, so that a promised start depends on few
        # cards. Several: cards that should be used (`first`) before that.
        best = rows[np.lexsort(keys)]
        best = best[seats[best] > given[best]][:count]
        if len(best) < count:
            return done
        given[best] += 1
    return claims


def _build_amounts(fit: ClaimFit, given: Ints, placed: list[tuple[int, int]]) -> SeatAmounts:
    rows = np.flatnonzero(given)
    claims = [(node, count) for node, count in placed if count]
    times = given[rows]
    nodes = np.array([node for node, _ in claims], dtype=np.int64)
    counts = np.array([count for _, count in claims], dtype=np.int64)
    cpu = counts * fit.shape.cpu_milli
    size = counts * fit.shape.host_bytes
    return SeatAmounts(
        rows, times * fit.shape.held_milli, times * fit.need[rows], nodes, cpu, size, times
    )


def _sum_by_node(free: FreeCapacity, column: Ints) -> Ints:
    sums = np.bincount(free.cards.node, weights=column, minlength=len(free.cards.nodes))
    return sums.astype(np.int64)


def _count_by_host(fit: ClaimFit, columns: CapacityColumns) -> Ints:
    """Return per node for how many claims its processors and main memory suffice."""
    limits = np.full(len(columns.cpu_milli), UNLIMITED, dtype=np.int64)
    for asked, column in (
        (fit.shape.cpu_milli, columns.cpu_milli),
        (fit.shape.host_bytes, columns.host_bytes),
    ):
        if asked:
            limits = np.minimum(limits, np.maximum(column, 0) // asked)
    return limits
