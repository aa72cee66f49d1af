"""How many claims of one shape each node can hold side by side, cached between calls.

A count is exact for a node on which nothing else is placed meanwhile. The sum over nodes therefore
says whether a role of a gang can fit before any placement is tried.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit, count_free_slots
from gpupool.scheduling.filtering.free_capacity import UNLIMITED, FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints


class FitCounts:
    """Counts for one shape, updated on the nodes that changed since the last call."""

    def __init__(self, fit: ClaimFit, free: FreeCapacity) -> None:
        self._fit = fit
        self._free = free
        self._by_node = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self._read = free.get_cursor()
        self._recount(np.arange(len(free.cards.nodes)))

    def count_by_node(self) -> Ints:
        """Return the number of claims per node. The fit must be fresh."""
        self._recount(self._free.list_changed_nodes(self._read))
        self._read = self._free.get_cursor()
        return self._by_node

    def _recount(self, nodes: Ints) -> None:
        if len(nodes):
            found = np.minimum(self._count_on_cards(nodes), self._count_on_host(nodes))
            if numa_affinity.is_numa_required(self._fit.shape):
                usable = np.ones(len(self._free.cards), dtype=np.bool_)
                found = np.minimum(
                    found, numa_affinity.count_claims_by_node(self._fit, self._free, usable)[nodes]
                )
            self._by_node[nodes] = np.where(self._fit.roomy[nodes], found, 0)

    def _count_on_cards(self, nodes: Ints) -> Ints:
        """Return the most claims whose seats are on distinct cards each.

        Of k claims a card serves at most k, so k is feasible if the sum of min(seats, k) covers k
        claims. The loop lowers k until that holds.
        """
        shape = self._fit.shape
        if shape.count == 0:
            return np.full(len(nodes), UNLIMITED, dtype=np.int64)
        seats = self._count_seats(nodes)
        # Starts at an upper bound and only falls, so the loop ends; equal after two or three steps.
        most: Ints = seats.sum(axis=1) // shape.count
        while True:
            fewer = np.minimum(most, np.minimum(seats, most[:, None]).sum(axis=1) // shape.count)
            if (fewer == most).all():
                return most
            most = fewer

    def _count_seats(self, nodes: Ints) -> Ints:
        """Return how many seats each card has room for, one line per node."""
        shape = self._fit.shape
        free = self._free
        rows, there = free.get_row_table(nodes)
        if len(free.cards) == 0:
            return np.zeros(there.shape, dtype=np.int64)
        fits = (self._fit.why[rows] == FITS) & there
        if shape.is_whole:
            return np.where(fits, 1, 0)
        room: Ints = free.size[rows] // np.maximum(self._fit.need[rows], 1)
        if shape.held_milli:
            np.minimum(room, free.milli[rows] // shape.held_milli, out=room)
        if shape.profile is not None:
            places = (
                count_free_slots(free, row, shape.profile) for row in rows.reshape(-1).tolist()
            )
            np.minimum(
                room,
                np.fromiter(places, dtype=np.int64, count=rows.size).reshape(rows.shape),
                out=room,
            )
        room[~fits] = 0
        return room

    def _count_on_host(self, nodes: Ints) -> Ints:
        shape = self._fit.shape
        free = self._free
        cpu: Ints = free.cpu_milli[nodes] // max(shape.cpu_milli, 1)
        np.minimum(cpu, free.host_bytes[nodes] // max(shape.host_bytes, 1), out=cpu)
        return cpu


def find_roomy_nodes(fit: ClaimFit, free: FreeCapacity, room: int | None) -> Bools:
    """Return a mask of the nodes that take the whole claim.

    Args:
        fit: The filter's result for the shape.
        free: What is free.
        room: Memory bytes that the tenant's quota leaves; None is unlimited.
    """
    if room is None or fit.shape.memory_bytes is not None:
        return fit.roomy
    within: Bools = fit.roomy & (compute_cheapest_bytes(fit, free) <= room)
    return within


def compute_cheapest_bytes(fit: ClaimFit, free: FreeCapacity) -> Ints:
    """Return per node the least memory that the claim can hold there.

    A node with fewer fitting cards than the claim needs counts all of them.
    """
    rows = np.flatnonzero(fit.why == FITS)
    rows = rows[np.lexsort((fit.need[rows], free.cards.node[rows]))]
    nodes = free.cards.node[rows]
    starts = np.searchsorted(nodes, nodes)
    chosen = rows[np.arange(len(rows)) - starts < fit.shape.count]
    sums = np.bincount(
        free.cards.node[chosen], weights=fit.need[chosen], minlength=len(free.cards.nodes)
    )
    return sums.astype(np.int64)
