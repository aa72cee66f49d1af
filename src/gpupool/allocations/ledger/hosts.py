"""Allocated processors and main memory in the rows of nodes, by NUMA node where requested.

A write names no generation here: it locks the node's row, and a sum above the node's capacity
raises StaleGeneration. `grants` and `releases` write the allocations in the same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import HostUpdate
from gpupool.allocations.store.tables import allocations
from gpupool.base.errors import StaleGeneration
from gpupool.fleet.tables import nodes
from gpupool.model.numa import (
    NumaPart,
    add_numa_parts,
    read_host_capacity,
    read_numa_nodes,
    read_numa_parts,
)
from gpupool.network.planes.reading import HAS_PLANES
from gpupool.scheduling import JobPlacement
from gpupool.store.database import WriteTransaction

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
        # Most claims request neither: their nodes' rows are not written at all.
        sa.or_(allocations.c.cpu_milli != 0, allocations.c.host_bytes != 0),
    )
)
_USE = sa.select(*_COLUMNS)
_BY_NAME = sa.select(
    nodes.c.id, nodes.c.name, nodes.c.agent, nodes.c.labels, HAS_PLANES.label("has_planes")
).where(nodes.c.name.in_(sa.bindparam("nodes", expanding=True)))


@dataclass
class _HostUse:
    """Amounts that a transaction adds to a node's use, or subtracts from it."""

    #: Processors in thousandths.
    cpu: int = 0
    #: Main memory in bytes.
    size: int = 0
    numa: tuple[NumaPart, ...] = ()

    def add(self, cpu: int, size: int, numa: Iterable[NumaPart]) -> None:
        self.cpu = self.cpu + cpu
        self.size = self.size + size
        self.numa = add_numa_parts(self.numa, numa)


def take_hosts(
    write: WriteTransaction, placements: Sequence[JobPlacement], pending: Mapping[str, Row]
) -> tuple[HostUpdate, ...]:
    """Add what these jobs request to the nodes' rows.

    Args:
        write: The transaction; the caller commits it.
        placements: Where the jobs go.
        pending: The jobs' rows, by public id.

    Raises:
        StaleGeneration: A node has less than the plan assumed.
    """
    taken: dict[str, _HostUse] = defaultdict(_HostUse)
    for placement in placements:
        job = pending[placement.job]
        if job.cpu_milli or job.host_bytes:
            taken[placement.node].add(job.cpu_milli, job.host_bytes, placement.numa)
    rows = [_update_node(write, node, use, 1) for node, use in taken.items()]
    for row in rows:
        # Checked after the write, on the row that is locked by it: a check before would race.
        if _is_overcommitted(row, taken[row.name].numa):
            raise StaleGeneration(
                f"node {row.name} has less than was planned with", hint="plan again"
            )
    return _build_host_updates(rows)


def _update_node(write: WriteTransaction, node: str, use: _HostUse, sign: int) -> Row:
    """Add to a node's use, or subtract with `sign` -1; return the row as it is afterwards."""
    amounts = {"node": node, "cpu": sign * use.cpu, "bytes": sign * use.size}
    row = write.execute(_CHANGE, amounts).one()
    if not use.numa:
        return row
    # The sums by NUMA node are JSON, which SQL cannot add to. The first write has locked the row,
    # so they are read and written without another transaction between.
    parts = add_numa_parts(read_numa_parts(row.used_numa), use.numa, sign)
    return write.execute(_CHANGE_NUMA, {"node": node, "held": parts}).one()


def _is_overcommitted(row: Row, taken: Iterable[NumaPart]) -> bool:
    """Whether the use exceeds the node's capacity, or that of a NUMA node in `taken`."""
    capacity = read_host_capacity(row.facts)
    # A node that reports no capacity is not limited.
    if capacity is not None:
        cpu_milli, memory_bytes = capacity
        if row.used_cpu_milli > cpu_milli or row.used_host_bytes > memory_bytes:
            return True
    sizes = dict[int, tuple[int, int]]()
    for node in read_numa_nodes(row.facts):
        sizes[node.number] = (1000 * len(node.cpus), node.memory_bytes)
    used = {part.numa: part for part in read_numa_parts(row.used_numa)}
    # Only the NUMA nodes of this write: one that the node shows no longer must not stop placements
    # on the others.
    for part in taken:
        cpu_milli, memory_bytes = sizes.get(part.numa, (0, 0))
        now = used[part.numa]
        if now.cpu_milli > cpu_milli or now.host_bytes > memory_bytes:
            return True
    return False


def _build_host_updates(rows: Iterable[Row]) -> tuple[HostUpdate, ...]:
    updates = list[HostUpdate]()
    for row in rows:
        numa = read_numa_parts(row.used_numa)
        updates.append(
            HostUpdate(row.name, row.used_cpu_milli, row.used_host_bytes, row.generation, numa)
        )
    return tuple(updates)


def free_hosts(write: WriteTransaction, allocation_ids: Sequence[int]) -> tuple[HostUpdate, ...]:
    """Subtract what these allocations hold from their nodes' rows."""
    less: dict[str, _HostUse] = defaultdict(_HostUse)
    for row in write.execute(_HELD, {"allocations": list(allocation_ids)}):
        less[row.name].add(row.cpu_milli, row.host_bytes, read_numa_parts(row.numa))
    return _build_host_updates(_update_node(write, node, use, -1) for node, use in less.items())


def read_nodes(write: WriteTransaction, names: Iterable[str]) -> dict[str, Row]:
    """Read id, agent and labels of nodes, by name, and whether planes decide anything.

    Raises:
        StaleGeneration: A node has gone since the plan.
    """
    wanted = set(names)
    rows = {row.name: row for row in write.execute(_BY_NAME, {"nodes": sorted(wanted)})}
    if rows.keys() != wanted:
        raise StaleGeneration("a node went while the plan was made", hint="plan again")
    return rows


def read_all_hosts(connection: sa.Connection) -> tuple[HostUpdate, ...]:
    """Read what is allocated of every node."""
    return _build_host_updates(connection.execute(_USE))
