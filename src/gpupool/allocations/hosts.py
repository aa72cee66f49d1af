"""What is held of nodes' processors and main memory, in the nodes' own rows, by NUMA node where it was asked so.

For `ledger` alone, which writes the allocations in the same transaction. Nobody names a node's generation: its row is
locked by the first write, and what is then more than it has is refused with StaleGeneration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.notes import HostNote
from gpupool.allocations.tables import allocations
from gpupool.base.errors import StaleGeneration
from gpupool.fleet.tables import nodes
from gpupool.model.numa import NumaPart, added, host_of, numa_of, parts_of
from gpupool.scheduling.snapshot import Placement
from gpupool.store.database import Write

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_COLUMNS = (
    nodes.c.name,
    nodes.c.used_cpu_milli,
    nodes.c.used_host_bytes,
    nodes.c.used_numa,
    nodes.c.generation,
    nodes.c.facts,
)
_CHANGE = (
    nodes.update()
    .where(nodes.c.name == sa.bindparam("node"))
    .values(
        used_cpu_milli=nodes.c.used_cpu_milli + sa.bindparam("cpu"),
        used_host_bytes=nodes.c.used_host_bytes + sa.bindparam("bytes"),
        generation=nodes.c.generation + 1,
    )
    .returning(*_COLUMNS)
)
_CHANGE_NUMA = (
    nodes.update()
    .where(nodes.c.name == sa.bindparam("node"))
    .values(used_numa=sa.bindparam("held", type_=sa.JSON()))
    .returning(*_COLUMNS)
)
_HELD = (
    sa.select(nodes.c.name, allocations.c.cpu_milli, allocations.c.host_bytes, allocations.c.numa)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .where(
        allocations.c.id.in_(sa.bindparam("allocations", expanding=True)),
        sa.or_(allocations.c.cpu_milli != 0, allocations.c.host_bytes != 0),
    )
)
_USE = sa.select(*_COLUMNS)


@dataclass
class _Use:
    """What comes to a node's use of its processors and main memory, or leaves it."""

    cpu: int = 0
    size: int = 0
    numa: tuple[NumaPart, ...] = ()

    def add(self, cpu: int, size: int, numa: Iterable[NumaPart]) -> None:
        self.cpu, self.size, self.numa = self.cpu + cpu, self.size + size, added(self.numa, numa)


def take_hosts(write: Write, placements: Sequence[Placement], pending: Mapping[str, Row]) -> tuple[HostNote, ...]:
    """Add to what is held of the nodes what these jobs ask for. Raises StaleGeneration where a node has less."""
    taken: dict[str, _Use] = defaultdict(_Use)
    for placement in placements:
        job = pending[placement.job]
        if job.cpu_milli or job.host_bytes:
            taken[placement.node].add(job.cpu_milli, job.host_bytes, placement.numa)
    rows = [_change(write, node, use, 1) for node, use in taken.items()]
    for row in rows:
        if _has_less(row, taken[row.name].numa):
            raise StaleGeneration(f"node {row.name} has less than was planned with", hint="plan again")
    return _notes(rows)


def _change(write: Write, node: str, use: _Use, sign: int) -> Row:
    """The node's row afterwards. It is locked by the first of the two writes."""
    row = write.execute(_CHANGE, {"node": node, "cpu": sign * use.cpu, "bytes": sign * use.size}).one()
    if not use.numa:
        return row
    return write.execute(_CHANGE_NUMA, {"node": node, "held": added(parts_of(row.used_numa), use.numa, sign)}).one()


def _has_less(row: Row, taken: Iterable[NumaPart]) -> bool:
    """Whether a node's use is more than what it has, of the whole or of a NUMA node that was just taken from."""
    has = host_of(row.facts)
    if has is not None and (row.used_cpu_milli > has[0] or row.used_host_bytes > has[1]):
        return True
    sizes = {node.number: (1000 * len(node.cpus), node.memory_bytes) for node in numa_of(row.facts)}
    used = {part.numa: part for part in parts_of(row.used_numa)}
    return any(
        used[numa].cpu_milli > sizes.get(numa, (0, 0))[0] or used[numa].host_bytes > sizes.get(numa, (0, 0))[1]
        for numa, _, _ in taken
    )


def _notes(rows: Iterable[Row]) -> tuple[HostNote, ...]:
    return tuple(
        HostNote(row.name, row.used_cpu_milli, row.used_host_bytes, row.generation, parts_of(row.used_numa))
        for row in rows
    )


def free_hosts(write: Write, allocation_ids: Sequence[int]) -> tuple[HostNote, ...]:
    """Take off the nodes what these allocations hold of them."""
    less: dict[str, _Use] = defaultdict(_Use)
    for row in write.execute(_HELD, {"allocations": list(allocation_ids)}):
        less[row.name].add(row.cpu_milli, row.host_bytes, parts_of(row.numa))
    return _notes(_change(write, node, use, -1) for node, use in less.items())


def read_all_hosts(connection: sa.Connection) -> tuple[HostNote, ...]:
    """What is held of every node now."""
    return _notes(connection.execute(_USE))
