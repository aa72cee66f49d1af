"""What is free of each NUMA node, as a part of the working copy, and how a claim's amounts are divided over them.

Near first: from the NUMA nodes of the claim's cards in proportion to how many of the cards each has, then what else
those have, then from the host's others, the emptiest first. That is a preference and no wall: a claim that a host has
room for always finds its amounts. Knows no claims and no policy; claims are in `near`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpupool.model.numa import NumaPart
from gpupool.scheduling.numa_nodes import unknown
from gpupool.scheduling.snapshot import Cards, Ints


class Division(NamedTuple):
    """Amounts by entry of `NumaNodes`, each entry once."""

    at: Ints
    cpu_milli: Ints
    host_bytes: Ints

    def __neg__(self) -> Division:
        return Division(self.at, -self.cpu_milli, -self.host_bytes)


class Numa:
    """Free processors and memory by NUMA node, no entry where nobody says; changed by `Free` alone."""

    def __init__(self, cards: Cards) -> None:
        known = None if cards.hosts is None else cards.hosts.numa
        self.known = known = known or unknown(len(cards))
        self.of_card = known.of_card
        self.cpu_milli, self.host_bytes = known.free_cpu_milli.copy(), known.free_memory_bytes.copy()
        self._starts = np.searchsorted(known.node, np.arange(len(cards.nodes) + 1))

    def __len__(self) -> int:
        return len(self.cpu_milli)

    def of_node(self, node: int) -> Ints:
        """The host's entries."""
        return np.arange(self._starts[node], self._starts[node + 1])

    def add(self, some: Division) -> None:
        self.cpu_milli[some.at] += some.cpu_milli
        self.host_bytes[some.at] += some.host_bytes

    def divide(self, node: int, rows: Ints, cpu_milli: int, host_bytes: int) -> Division | None:
        """Where so much comes from for a claim on these cards; None where there is nothing to divide."""
        if not (cpu_milli or host_bytes) or not len(self):
            return None
        at = self.of_node(node)
        cards = np.bincount(self.of_card[rows][self.of_card[rows] >= 0], minlength=len(self.cpu_milli))[at]
        cpu = _spread(cpu_milli, self.cpu_milli[at], cards)
        size = _spread(host_bytes, self.host_bytes[at], cards)
        some = (cpu > 0) | (size > 0)
        return Division(at[some], cpu[some], size[some])

    def parts(self, division: Division | None) -> tuple[NumaPart, ...]:
        """As the ledger writes it."""
        if division is None:
            return ()
        columns = (self.known.number[division.at], division.cpu_milli, division.host_bytes)
        return tuple(NumaPart(*each) for each in zip(*(column.tolist() for column in columns), strict=True))

    def held(self, node: int, parts: Iterable[NumaPart]) -> Division | None:
        """What `parts` said; a NUMA node that the host does not have any more is passed over."""
        at = {int(self.known.number[entry]): int(entry) for entry in self.of_node(node)}
        found = [(at[part.numa], part.cpu_milli, part.host_bytes) for part in parts if part.numa in at]
        return Division(*np.array(found, dtype=np.int64).T) if found else None

    def widened(self, nodes: Ints, cpu_milli: Ints, host_bytes: Ints) -> Division:
        """What would be free more at most of these hosts' NUMA nodes if so much of each host came back.

        Nobody says of which NUMA node that will be; so each may have all of it, up to its size.
        """
        at = np.flatnonzero(np.isin(self.known.node, nodes))
        of = np.searchsorted(nodes, self.known.node[at])
        cpu = np.minimum(cpu_milli[of], self.known.cpu_milli[at] - self.cpu_milli[at])
        size = np.minimum(host_bytes[of], self.known.memory_bytes[at] - self.host_bytes[at])
        return Division(at, np.maximum(cpu, 0), np.maximum(size, 0))


def _spread(asked: int, free: Ints, cards: Ints) -> Ints:
    """So much over NUMA nodes that have `free` and so many of the claim's cards; less where all have less."""
    room = np.maximum(free, 0)
    given: Ints = np.minimum(room, asked * cards // max(int(cards.sum()), 1))
    for place in np.lexsort((-(room - given), cards == 0)):
        given[place] += min(int(room[place] - given[place]), asked - int(given.sum()))
    return given
