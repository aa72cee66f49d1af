"""How many claims of one shape each node could hold side by side, kept from one question to the next.

Exact for a node that nobody else takes from meanwhile; a sum over nodes thus says whether a gang's role can fit,
before anything is tried.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling import near
from gpupool.scheduling.feasible import FITS, Fit, places_on
from gpupool.scheduling.free import UNLIMITED, Free
from gpupool.scheduling.snapshot import Ints


class Copies:
    """One shape: `by_node`, mended on the nodes that changed since it was last asked for."""

    def __init__(self, fit: Fit, free: Free) -> None:
        self._fit, self._free = fit, free
        self._by_node = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self._read = free.now()
        self._count(np.arange(len(free.cards.nodes)))

    def by_node(self) -> Ints:
        """The fit has to be fresh."""
        self._count(self._free.changed(self._read))
        self._read = self._free.now()
        return self._by_node

    def _count(self, nodes: Ints) -> None:
        if len(nodes):
            found = np.minimum(self._on_cards(nodes), self._on_host(nodes))
            if near.required(self._fit.shape):
                usable = np.ones(len(self._free.cards), dtype=np.bool_)
                found = np.minimum(found, near.copies(self._fit, self._free, usable)[nodes])
            self._by_node[nodes] = np.where(self._fit.roomy[nodes], found, 0)

    def _on_cards(self, nodes: Ints) -> Ints:
        """The most claims whose seats are on distinct cards each: of k claims a card serves at most k."""
        shape = self._fit.shape
        if shape.count == 0:
            return np.full(len(nodes), UNLIMITED, dtype=np.int64)
        seats = self._seats(nodes)
        most: Ints = seats.sum(axis=1) // shape.count
        while True:
            fewer = np.minimum(most, np.minimum(seats, most[:, None]).sum(axis=1) // shape.count)
            if (fewer == most).all():
                return most
            most = fewer

    def _seats(self, nodes: Ints) -> Ints:
        """Per card how many seats it has room for, one line per node."""
        shape, free = self._fit.shape, self._free
        rows, there = free.seats(nodes)
        if len(free.cards) == 0:
            return np.zeros(there.shape, dtype=np.int64)
        fits = (self._fit.why[rows] == FITS) & there
        if shape.whole:
            return np.where(fits, 1, 0)
        room: Ints = free.size[rows] // np.maximum(self._fit.need[rows], 1)
        if shape.held_milli:
            np.minimum(room, free.milli[rows] // shape.held_milli, out=room)
        if shape.profile is not None:
            places = (places_on(free, row, shape.profile) for row in rows.reshape(-1).tolist())
            np.minimum(room, np.fromiter(places, dtype=np.int64, count=rows.size).reshape(rows.shape), out=room)
        room[~fits] = 0
        return room

    def _on_host(self, nodes: Ints) -> Ints:
        shape, free = self._fit.shape, self._free
        cpu: Ints = free.cpu_milli[nodes] // max(shape.cpu_milli, 1)
        np.minimum(cpu, free.host_bytes[nodes] // max(shape.host_bytes, 1), out=cpu)
        return cpu
