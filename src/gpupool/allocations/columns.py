"""Rows of nodes and cards as the scheduler's columns. Pure but for the rows it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from gpupool.base.units import WHOLE
from gpupool.fleet.tables import devices, nodes
from gpupool.model.catalogue import vendor_of
from gpupool.model.device import DeviceState, Health
from gpupool.model.numa import host_of, numa_of, parts_of
from gpupool.model.partition import read_pieces, read_profiles
from gpupool.model.topology import read_topology
from gpupool.scheduling.levels import levels_of
from gpupool.scheduling.numa_nodes import NumaNodes, numa_nodes
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus, Cut, Hosts, Ints

_ROWS = (
    sa.select(
        devices,
        nodes.c.name.label("node"),
        nodes.c.labels,
        nodes.c.facts.label("node_facts"),
        nodes.c.topology,
        nodes.c.used_cpu_milli,
        nodes.c.used_host_bytes,
        nodes.c.used_numa,
        nodes.c.generation.label("node_generation"),
    )
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(nodes.c.cluster_generation.is_(None))  # what a cluster hands out is not this pool's to place on
    .order_by(nodes.c.id, devices.c.idx)
)


def read_rows(connection: sa.Connection) -> Sequence[Any]:
    """Every card with its node, in the snapshot's order."""
    return connection.execute(_ROWS).all()


def cards_of(rows: Sequence[Any]) -> Cards:
    """The columns, in the order of the rows."""
    kinds = tuple(dict.fromkeys(_kind(row) for row in rows))
    by_node = {row.node: row for row in rows}
    names = tuple(by_node)
    kind_at = {kind: n for n, kind in enumerate(kinds)}
    node_at = {name: n for n, name in enumerate(names)}
    numa = numa_nodes(
        [numa_of(row.node_facts) for row in by_node.values()],
        [(node_at[row.node], row.facts.get("numa_node")) for row in rows],
        [parts_of(row.used_numa) for row in by_node.values()],
    )

    def column(value: Callable[[Any], int]) -> Ints:
        return np.fromiter((value(row) for row in rows), dtype=np.int64, count=len(rows))

    return Cards(
        uuids=tuple(row.uuid for row in rows),
        models=tuple(model for model, _ in kinds),
        vendors=tuple(vendor for _, vendor in kinds),
        nodes=names,
        node_labels=tuple(row.labels for row in by_node.values()),
        model=column(lambda row: kind_at[_kind(row)]),
        node=column(lambda row: node_at[row.node]),
        status=column(lambda row: CARD_STATUS.index(card_status(row.state, row.health))),
        memory_bytes=column(lambda row: row.memory_bytes),
        free_milli=column(lambda row: WHOLE - row.used_milli),
        free_bytes=column(lambda row: row.memory_bytes - row.used_bytes),
        generation=column(lambda row: row.generation),
        hosts=hosts_of(tuple(by_node.values()), numa),
        levels=levels_of(tuple(row.labels for row in by_node.values())),
        links={n: found for n, row in enumerate(by_node.values()) if (found := read_topology(row.topology)).devices},
        cuts={n: cut_of(row) for n, row in enumerate(rows) if row.facts.get("partitioned")},
    )


def _kind(row: Any) -> tuple[str, str]:
    """Model and vendor; agents of clusters and of 0.1.0 tell no vendor."""
    return row.model, row.facts.get("vendor") or vendor_of(row.model)


def cut_of(row: Any) -> Cut:
    """A card in partition mode: what its agent can make of it, and what is cut of it now."""
    return Cut(read_profiles(row.facts.get("profiles", ())), read_pieces(row.pieces))


def card_status(state: str, health: str) -> CardStatus:
    """What a card's state and health mean for placing."""
    if state == DeviceState.DRAINING:
        return CardStatus.DRAINING
    if state == DeviceState.OBSERVED:
        return CardStatus.NOT_ADOPTED
    if state == DeviceState.LOST or health == Health.FAILED:
        return CardStatus.UNHEALTHY
    return CardStatus.OPEN


def hosts_of(rows: Sequence[Any], numa: NumaNodes | None = None) -> Hosts | None:
    """Processors and main memory of the nodes; None where no node says. One that does not has none to give."""
    known = [host_of(row.node_facts) for row in rows]
    if not any(known):
        return None
    cpu, size = np.array([has or (0, 0) for has in known], dtype=np.int64).T
    used_cpu, used_size = (
        np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in ("used_cpu_milli", "used_host_bytes")
    )
    return Hosts(cpu, size, cpu - used_cpu, size - used_size, numa)
