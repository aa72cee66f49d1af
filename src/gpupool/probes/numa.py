"""Reads the NUMA nodes of this host from sysfs, as far as this process may use them.

Only processors that this process may run on count (sched_getaffinity(2)), since jobs inherit that.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from gpupool.model.numa import NumaNode, parse_cpus


def list_usable_cpus() -> frozenset[int]:
    """Return the processors that this process, and so its jobs, may run on."""
    return frozenset(os.sched_getaffinity(0))


def read_numa(
    usable: Collection[int], memory_bytes: int, sys_root: Path = Path("/sys")
) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes by number, at least one.

    Where the kernel shows none, node 0 has all usable processors and all memory.
    """
    nodes = []
    for path in (sys_root / "devices/system/node").glob("node[0-9]*"):
        node = _read_node(path, frozenset(usable))
        # A node without a usable processor is another pool's, a memory expander, or a card's own
        # memory that the kernel shows as a node (Grace Hopper).
        if node is not None and node.cpus:
            nodes.append(node)
    nodes.sort(key=lambda node: node.number)
    return tuple(nodes) or (NumaNode(0, tuple(sorted(usable)), memory_bytes),)


def _read_node(path: Path, usable: frozenset[int]) -> NumaNode | None:
    """Return a node; None where its files are not as sysfs documents them."""
    try:
        cpus = parse_cpus((path / "cpulist").read_text(encoding="ascii"))
        memory = (path / "meminfo").read_text(encoding="ascii").splitlines()
        # A line such as: Node 0 MemTotal: 19228888 kB
        total = next(line for line in memory if "MemTotal:" in line)
        number = int(path.name.removeprefix("node"))
        mine = tuple(cpu for cpu in cpus if cpu in usable)
        return NumaNode(number, mine, int(total.split()[3]) << 10)
    except (OSError, ValueError, StopIteration):
        return None
