"""NUMA nodes of one host: which processors and how much main memory are near each other. Pure
facts.

Lists of processors are written as the kernel writes them (`0-3,8`); see cpuset(7), "List format".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

#: No host has a processor of a higher number; a list that names one is no list.
MOST_CPUS = 1 << 16


@dataclass(frozen=True)
class NumaNode:
    """`number` as the kernel counts; `cpus` are the processors that may be used there."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int


class NumaPart(NamedTuple):
    """What a job holds of one NUMA node's processors and main memory."""

    numa: int
    cpu_milli: int
    host_bytes: int


@lru_cache(maxsize=1024)
def parse_cpus(text: str) -> tuple[int, ...]:
    """The processors of a list, in order. Raises ValueError.

    >>> parse_cpus("0-2,8"), parse_cpus("")
    ((0, 1, 2, 8), ())
    """
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        low = int(first)
        high = int(last) if dash else int(first)
        if not 0 <= low <= high < MOST_CPUS:
            raise ValueError(f"{part!r} is no range of processors")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def format_cpus(cpus: Collection[int]) -> str:
    """The shortest list of these processors.

    >>> format_cpus((8, 0, 1, 2))
    '0-2,8'
    """
    texts = []
    for low, high in _list_ranges(sorted(cpus)):
        texts.append(f"{low}-{high}" if high > low else str(low))
    return ",".join(texts)


def _list_ranges(cpus: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for cpu in cpus:
        if runs and runs[-1][1] == cpu - 1:
            runs[-1] = runs[-1][0], cpu
        else:
            runs.append((cpu, cpu))
    return runs


def divide_evenly(
    numbers: Collection[int], cpu_count: int, memory_bytes: int
) -> tuple[NumaNode, ...]:
    """Divide a host whose NUMA nodes are unknown in even parts: processors in blocks, in order.

    >>> [node.cpus for node in divide_evenly((0, 1), 4, 64)]
    [(0, 1), (2, 3)]
    """
    count = len(numbers)
    found = []
    for n, number in enumerate(sorted(numbers)):
        found.append(
            NumaNode(
                number,
                tuple(range(cpu_count * n // count, cpu_count * (n + 1) // count)),
                memory_bytes // count,
            )
        )
    return tuple(found)


# What an agent tells of its host, in the facts of the node.


def write_numa_nodes(nodes: Iterable[NumaNode]) -> list[dict[str, Any]] | None:
    """Ready for JSON; None where nothing is known."""
    written = []
    for node in nodes:
        cpus = format_cpus(node.cpus)
        written.append({"number": node.number, "cpus": cpus, "memory_bytes": node.memory_bytes})
    return written or None


def read_numa_nodes(facts: Mapping[str, Any]) -> tuple[NumaNode, ...]:
    """Read the NUMA nodes that `write_numa_nodes` wrote, by number; empty if there are none."""
    nodes = []
    for one in facts.get("numa") or ():
        nodes.append(NumaNode(one["number"], parse_cpus(one["cpus"]), one["memory_bytes"]))
    return tuple(sorted(nodes, key=lambda node: node.number))


def read_host_capacity(facts: Mapping[str, Any]) -> tuple[int, int] | None:
    """A node's processors (in thousandths) and main memory; None where it says neither.

    Those of its NUMA nodes where they are known: what is free of the host is so never more than of
    them together.
    """
    nodes = read_numa_nodes(facts)
    if nodes:
        cpu_count = sum(len(node.cpus) for node in nodes)
        return 1000 * cpu_count, sum(node.memory_bytes for node in nodes)
    if "cpu_count" not in facts and "memory_bytes" not in facts:
        return None
    return 1000 * int(facts.get("cpu_count") or 0), int(facts.get("memory_bytes") or 0)


# What is held, as it is kept in the ledger: [number, cpu_milli, host_bytes] of each NUMA node.


def read_numa_parts(rows: Iterable[Iterable[int]] | None) -> tuple[NumaPart, ...]:
    """From the ledger's JSON."""
    return tuple(NumaPart(*row) for row in rows or ())


def add_numa_parts(
    some: Iterable[NumaPart], more: Iterable[NumaPart], sign: int = 1
) -> tuple[NumaPart, ...]:
    """Both together, by number; what is nothing then is left out.

    >>> add_numa_parts([NumaPart(0, 500, 8), NumaPart(1, 100, 0)], [NumaPart(1, 100, 0)], -1)
    (NumaPart(numa=0, cpu_milli=500, host_bytes=8),)
    """
    total = {part.numa: part for part in some}
    for numa, cpu, size in more:
        before = total.get(numa, NumaPart(numa, 0, 0))
        total[numa] = NumaPart(numa, before.cpu_milli + sign * cpu, before.host_bytes + sign * size)
    found = []
    for _, part in sorted(total.items()):
        if part.cpu_milli or part.host_bytes:
            found.append(part)
    return tuple(found)
