"""The NUMA nodes of a pool's hosts as columns; whoever builds a snapshot makes them here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpupool.model.numa import NumaNode, NumaPart

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumaNodes:
    """The NUMA nodes of all hosts, one entry each, in the order of the nodes; a host that says nothing has none.

    What is free of a host is never more than what is free of its NUMA nodes together.
    """

    node: Ints
    number: Ints
    """As the host's kernel counts them."""
    cpu_milli: Ints
    memory_bytes: Ints
    free_cpu_milli: Ints
    free_memory_bytes: Ints
    of_card: Ints
    """Per card its entry here; -1 where its NUMA node is not known."""

    def copy(self) -> NumaNodes:
        """With columns of its own of what is free."""
        return replace(self, free_cpu_milli=self.free_cpu_milli.copy(), free_memory_bytes=self.free_memory_bytes.copy())

    def note(self, node: int, parts: Iterable[NumaPart]) -> None:
        """This and no more is held of a node's NUMA nodes."""
        mine = self._of(node)
        self.free_cpu_milli[mine] = self.cpu_milli[mine]
        self.free_memory_bytes[mine] = self.memory_bytes[mine]
        self.hold(node, parts)

    def hold(self, node: int, parts: Iterable[NumaPart], sign: int = 1) -> None:
        """So much less is free of a node's NUMA nodes, with -1 more; one that it does not have is passed over."""
        mine = self._of(node)
        for part in parts:
            at = mine.start + np.flatnonzero(self.number[mine] == part.numa)
            self.free_cpu_milli[at] -= sign * part.cpu_milli
            self.free_memory_bytes[at] -= sign * part.host_bytes

    def _of(self, node: int) -> slice:
        return slice(*np.searchsorted(self.node, (node, node + 1)).tolist())


def unknown(cards: int) -> NumaNodes:
    """Those of hosts that say nothing."""
    none = np.zeros(0, dtype=np.int64)
    return NumaNodes(none, none, none, none, none, none, np.full(cards, -1, dtype=np.int64))


def numa_nodes(
    hosts: Sequence[Sequence[NumaNode]],
    cards: Sequence[tuple[int, int | None]],
    held: Sequence[Iterable[NumaPart]],
) -> NumaNodes | None:
    """The columns, from what each host said, each card's host and NUMA node, and what each host's have given.

    None where no host says anything. A card of unknown NUMA node is on the only one, where its host has no other.
    """
    known = [(host, node) for host, nodes in enumerate(hosts) for node in nodes]
    if not known:
        return None
    at: dict[tuple[int, int | None], int] = {(host, node.number): entry for entry, (host, node) in enumerate(known)}
    at |= {(host, None): at[host, nodes[0].number] for host, nodes in enumerate(hosts) if len(nodes) == 1}
    table = [(host, node.number, 1000 * len(node.cpus), node.memory_bytes) for host, node in known]
    node, number, cpu, size = np.array(table, dtype=np.int64).T.copy()
    of_card = np.array([at.get(card, at.get((card[0], None), -1)) for card in cards], dtype=np.int64)
    found = NumaNodes(node, number, cpu, size, cpu.copy(), size.copy(), of_card)
    for host, parts in enumerate(held):
        found.hold(host, parts)
    return found
