"""Columns that describe the NUMA nodes of a pool's hosts.

The builder of a snapshot fills them from the reports of the hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpupool.model.numa import NumaNode, NumaPart

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumaNodes:
    """The NUMA nodes of all hosts, one entry each, in the order of the hosts.

    A host that reports no NUMA nodes has no entry. The free amount of a host never exceeds the sum
    of the free amounts of its NUMA nodes.
    """

    node: Ints
    #: As the host's kernel counts them.
    number: Ints
    cpu_milli: Ints
    memory_bytes: Ints
    free_cpu_milli: Ints
    free_memory_bytes: Ints
    #: Per card its entry here; -1 where its NUMA node is not known.
    of_card: Ints

    def copy(self) -> NumaNodes:
        """Return a copy whose columns of free amounts can be changed independently."""
        return replace(
            self,
            free_cpu_milli=self.free_cpu_milli.copy(),
            free_memory_bytes=self.free_memory_bytes.copy(),
        )

    def set_usage(self, node: int, parts: Iterable[NumaPart]) -> None:
        """Replace everything that is in use on the NUMA nodes of one host.

        Args:
            node: Index of the host.
            parts: All amounts in use. Amounts on an unknown NUMA node are ignored.
        """
        mine = self._of(node)
        self.free_cpu_milli[mine] = self.cpu_milli[mine]
        self.free_memory_bytes[mine] = self.memory_bytes[mine]
        self.add_usage(node, parts)

    def add_usage(self, node: int, parts: Iterable[NumaPart], sign: int = 1) -> None:
        """Subtract amounts from what is free on the NUMA nodes of one host.

        Args:
            node: Index of the host.
            parts: Amounts per NUMA node. Amounts on an unknown NUMA node are ignored.
            sign: 1 subtracts the amounts, -1 adds them back.
        """
        mine = self._of(node)
        for part in parts:
            at = mine.start + np.flatnonzero(self.number[mine] == part.numa)
            self.free_cpu_milli[at] -= sign * part.cpu_milli
            self.free_memory_bytes[at] -= sign * part.host_bytes

    def _of(self, node: int) -> slice:
        return slice(*np.searchsorted(self.node, (node, node + 1)).tolist())


def build_unknown_numa_nodes(cards: int) -> NumaNodes:
    """Return empty columns for a pool whose hosts report no NUMA nodes."""
    none = np.zeros(0, dtype=np.int64)
    return NumaNodes(none, none, none, none, none, none, np.full(cards, -1, dtype=np.int64))


def build_numa_nodes(
    hosts: Sequence[Sequence[NumaNode]],
    cards: Sequence[tuple[int, int | None]],
    held: Sequence[Iterable[NumaPart]],
) -> NumaNodes | None:
    """Build the columns from the reports of the hosts.

    A card of unknown NUMA node is assigned to the only NUMA node of its host, if there is only one.

    Args:
        hosts: Per host, the NUMA nodes that it reports.
        cards: Per card, the index of its host and the number of its NUMA node.
        held: Per host, the amounts in use.

    Returns:
        The columns; None if no host reports NUMA nodes.
    """
    at = dict[tuple[int, int | None], int]()
    table = list[tuple[int, int, int, int]]()
    for host, nodes in enumerate(hosts):
        for one in nodes:
            at[host, one.number] = len(table)
            table.append((host, one.number, 1000 * len(one.cpus), one.memory_bytes))
        # Firmware of hosts with a single NUMA node often reports none for its cards.
        if len(nodes) == 1:
            at[host, None] = at[host, nodes[0].number]
    if not table:
        return None
    node, number, cpu, size = np.array(table, dtype=np.int64).T.copy()
    of_card = np.array(
        [at.get(card, at.get((card[0], None), -1)) for card in cards], dtype=np.int64
    )
    found = NumaNodes(node, number, cpu, size, cpu.copy(), size.copy(), of_card)
    for host, parts in enumerate(held):
        found.add_usage(host, parts)
    return found
