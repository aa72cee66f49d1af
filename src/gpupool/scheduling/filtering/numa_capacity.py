"""Free processors and main memory per NUMA node, and the division of a claim's amounts over them.

The division prefers the NUMA nodes of the claim's cards, in proportion to the number of cards on
each. What is missing comes from the rest of those nodes, then from the emptiest other nodes. This
is a preference: a claim that fits on a host always gets its amounts. The module knows no claims;
`numa_affinity` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpupool.model.numa import NumaPart
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.numa_nodes import build_unknown_numa_nodes


class NumaDivision(NamedTuple):
    """Amounts by entry of `NumaNodes`; each entry occurs once."""

    at: Ints
    cpu_milli: Ints
    host_bytes: Ints

    def __neg__(self) -> NumaDivision:
        return NumaDivision(self.at, -self.cpu_milli, -self.host_bytes)


class NumaCapacity:
    """Free processors and memory per NUMA node; only `FreeCapacity` changes it.

    A host that reports no NUMA nodes has no entry.
    """

    def __init__(self, cards: CardTable) -> None:
        known = None if cards.hosts is None else cards.hosts.numa
        self.known = known = known or build_unknown_numa_nodes(len(cards))
        self.of_card = known.of_card
        self.cpu_milli = known.free_cpu_milli.copy()
        self.host_bytes = known.free_memory_bytes.copy()
        self._starts = np.searchsorted(known.node, np.arange(len(cards.nodes) + 1))

    def __len__(self) -> int:
        return len(self.cpu_milli)

    def get_node_entries(self, node: int) -> Ints:
        """Return the entries of one host."""
        return np.arange(self._starts[node], self._starts[node + 1])

    def add_amounts(self, some: NumaDivision) -> None:
        """Add the amounts to what is free."""
        self.cpu_milli[some.at] += some.cpu_milli
        self.host_bytes[some.at] += some.host_bytes

    def divide_amounts(
        self, node: int, rows: Ints, cpu_milli: int, host_bytes: int
    ) -> NumaDivision | None:
        """Divide a claim's amounts over the NUMA nodes of its host.

        Args:
            node: The host.
            rows: The cards of the claim.
            cpu_milli: Processors, in thousandths.
            host_bytes: Main memory.

        Returns:
            The amount per NUMA node; None if nothing is asked for or the NUMA nodes are unknown.
        """
        if not (cpu_milli or host_bytes) or not len(self):
            return None
        at = self.get_node_entries(node)
        cards = np.bincount(
            self.of_card[rows][self.of_card[rows] >= 0], minlength=len(self.cpu_milli)
        )[at]
        cpu = _distribute(cpu_milli, self.cpu_milli[at], cards)
        size = _distribute(host_bytes, self.host_bytes[at], cards)
        some = (cpu > 0) | (size > 0)
        return NumaDivision(at[some], cpu[some], size[some])

    def list_parts(self, division: NumaDivision | None) -> tuple[NumaPart, ...]:
        """Return a division in the form that the ledger stores."""
        if division is None:
            return ()
        numbers = self.known.number[division.at].tolist()
        cpu_milli = division.cpu_milli.tolist()
        host_bytes = division.host_bytes.tolist()
        return tuple(map(NumaPart, numbers, cpu_milli, host_bytes))

    def read_parts(self, node: int, parts: Iterable[NumaPart]) -> NumaDivision | None:
        """Return the division that `list_parts` wrote.

        A NUMA node that the host no longer has is ignored.
        """
        at = {int(self.known.number[entry]): int(entry) for entry in self.get_node_entries(node)}
        found = list[tuple[int, int, int]]()
        for part in parts:
            if part.numa in at:
                found.append((at[part.numa], part.cpu_milli, part.host_bytes))
        return NumaDivision(*np.array(found, dtype=np.int64).T) if found else None

    def estimate_released(self, nodes: Ints, cpu_milli: Ints, host_bytes: Ints) -> NumaDivision:
        """Return an upper bound of what NUMA nodes gain if their hosts get amounts back.

        It is unknown which NUMA node gets the amounts. Each one is therefore counted with all of
        them, up to its size.
        """
        at = np.flatnonzero(np.isin(self.known.node, nodes))
        of = np.searchsorted(nodes, self.known.node[at])
        cpu = np.minimum(cpu_milli[of], self.known.cpu_milli[at] - self.cpu_milli[at])
        size = np.minimum(host_bytes[of], self.known.memory_bytes[at] - self.host_bytes[at])
        return NumaDivision(at, np.maximum(cpu, 0), np.maximum(size, 0))


def _distribute(asked: int, free: Ints, cards: Ints) -> Ints:
    """Distribute an amount over NUMA nodes by their number of the claim's cards.

    The sum is smaller than `asked` if the nodes have less free.
    """
    # Held seats may leave less than nothing free (`PlanningState.hold_seats`).
    room = np.maximum(free, 0)
    given: Ints = np.minimum(room, asked * cards // max(int(cards.sum()), 1))
    # What rounding and full nodes left over: first NUMA nodes with cards of the claim, then others,
    # each time the emptiest first.
    for place in np.lexsort((-(room - given), cards == 0)):
        given[place] += min(int(room[place] - given[place]), asked - int(given.sum()))
    return given
