"""The NUMA nodes of this host by sysfs, as far as this process may use them: no driver is asked.

Only processors that we may run on count (sched_getaffinity(2)), for jobs inherit that. A NUMA node without such a
processor is left out with its memory: it is another pool's, a memory expander, or a card's own memory that the kernel
shows as a node (Grace Hopper).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from gpupool.model.numa import NumaNode, parse_cpus


def usable_cpus() -> frozenset[int]:
    """Processors that this process, and so its jobs, may run on."""
    return frozenset(os.sched_getaffinity(0))


def read_numa(usable: Collection[int], memory_bytes: int, sys_root: Path = Path("/sys")) -> tuple[NumaNode, ...]:
    """By number, at least one: where the kernel says nothing, all of `usable` with all of the memory is node 0."""
    found = (_node(path, frozenset(usable)) for path in (sys_root / "devices/system/node").glob("node[0-9]*"))
    nodes = sorted((node for node in found if node is not None and node.cpus), key=lambda node: node.number)
    return tuple(nodes) or (NumaNode(0, tuple(sorted(usable)), memory_bytes),)


def _node(path: Path, usable: frozenset[int]) -> NumaNode | None:
    """None where its files are not what sysfs documents."""
    try:
        cpus = parse_cpus((path / "cpulist").read_text(encoding="ascii"))
        memory = (path / "meminfo").read_text(encoding="ascii").splitlines()
        total = next(line for line in memory if "MemTotal:" in line)  # Node 0 MemTotal: 19228888 kB
        number, mine = int(path.name.removeprefix("node")), tuple(cpu for cpu in cpus if cpu in usable)
        return NumaNode(number, mine, int(total.split()[3]) << 10)
    except (OSError, ValueError, StopIteration):
        return None
