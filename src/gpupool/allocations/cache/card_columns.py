"""Builds the scheduler's columns of cards and hosts from rows. Pure but for `read_card_rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import sqlalchemy as sa

from gpupool.allocations.cache.card_offers import PublishedOffers
from gpupool.base.units import WHOLE
from gpupool.fleet.tables import devices, nodes
from gpupool.model.catalogue import vendor_of
from gpupool.model.claim import NETWORK_LABEL
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.model.numa import read_host_capacity, read_numa_nodes, read_numa_parts
from gpupool.model.partition import read_occupied_slots, read_profiles
from gpupool.model.topology import Topology, read_topology
from gpupool.network.machines.tables import network_machines
from gpupool.scheduling import (
    CARD_STATUS,
    CardStatus,
    CardTable,
    HostColumns,
    Ints,
    NumaNodes,
    PartitionLayout,
    build_levels,
    build_numa_nodes,
)

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
        network_machines.c.state.label("network_state"),
    )
    .join(nodes, nodes.c.id == devices.c.node_id)
    .outerjoin(network_machines, network_machines.c.agent == nodes.c.agent)
    # Nodes of a Kubernetes cluster are placed on by the cluster's own controller.
    .where(nodes.c.cluster_generation.is_(None))
    .order_by(nodes.c.id, devices.c.idx)
)


def read_card_rows(connection: sa.Connection) -> Sequence[Any]:
    """Read every card with its node, in the order of the snapshot."""
    return connection.execute(_ROWS).all()


def build_card_columns(
    rows: Sequence[Any], plane_labels: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> CardTable:
    """Build the columns of cards, in the order of the rows.

    Args:
        plane_labels: labels of nodes, by name, that say for which tenants' planes they are ready.
    """
    # The numbers of models and nodes are those of their first card, so that equal pools have equal
    # columns and plans do not depend on the run of a hash.
    kinds = tuple(dict.fromkeys(map(_read_card_kind, rows)))
    kind_at = {kind: n for n, kind in enumerate(kinds)}
    node_rows = tuple({row.node: row for row in rows}.values())
    node_at = {row.node: n for n, row in enumerate(node_rows)}
    node_labels = tuple(
        {**_read_labels(row), **plane_labels.get(row.node, {})} for row in node_rows
    )

    def build_column(value: Callable[[Any], int]) -> Ints:
        return np.fromiter(map(value, rows), dtype=np.int64, count=len(rows))

    return CardTable(
        uuids=tuple(row.uuid for row in rows),
        models=tuple(model for model, _ in kinds),
        vendors=tuple(vendor for _, vendor in kinds),
        nodes=tuple(node_at),
        node_labels=node_labels,
        model=build_column(lambda row: kind_at[_read_card_kind(row)]),
        node=build_column(lambda row: node_at[row.node]),
        status=build_column(_read_status),
        memory_bytes=build_column(lambda row: row.memory_bytes),
        free_milli=build_column(lambda row: WHOLE - row.used_milli),
        free_bytes=build_column(lambda row: row.memory_bytes - row.used_bytes),
        generation=build_column(lambda row: row.generation),
        hosts=build_host_columns(node_rows, _build_numa_columns(rows, node_rows, node_at)),
        levels=build_levels(node_labels),
        links=_read_links(node_rows),
        layouts=_read_layouts(rows),
        offers=PublishedOffers(rows),
    )


def _read_labels(row: Any) -> Mapping[str, str]:
    """Return the labels of a node, and the one that says that jobs can join networks there."""
    if row.network_state != "ready":
        labels: Mapping[str, str] = row.labels
        return labels
    key, value = NETWORK_LABEL
    return {**row.labels, key: value}


def _build_numa_columns(
    rows: Sequence[Any], node_rows: Sequence[Any], node_at: Mapping[str, int]
) -> NumaNodes | None:
    numa_node_of_card = [(node_at[row.node], row.facts.get("numa_node")) for row in rows]
    return build_numa_nodes(
        [read_numa_nodes(row.node_facts) for row in node_rows],
        numa_node_of_card,
        [read_numa_parts(row.used_numa) for row in node_rows],
    )


def _read_links(node_rows: Sequence[Any]) -> dict[int, Topology]:
    # A node without a link matrix is left out: the scheduler treats its cards as alike.
    links = dict[int, Topology]()
    for node, row in enumerate(node_rows):
        topology = read_topology(row.topology)
        if topology.devices:
            links[node] = topology
    return links


def _read_layouts(rows: Sequence[Any]) -> dict[int, PartitionLayout]:
    layouts = dict[int, PartitionLayout]()
    for card, row in enumerate(rows):
        if row.facts.get("partitioned"):
            layouts[card] = read_partition_state(row)
    return layouts


def _read_status(row: Any) -> int:
    return CARD_STATUS.index(derive_card_status(row.state, row.health))


def _read_card_kind(row: Any) -> tuple[str, str]:
    # Agents of clusters and of version 0.1.0 report no vendor.
    return row.model, row.facts.get("vendor") or vendor_of(row.model)


def read_partition_state(row: Any) -> PartitionLayout:
    """Return how a card in partition mode can be cut, and which slots are taken."""
    return PartitionLayout(
        read_profiles(row.facts.get("profiles", ())), read_occupied_slots(row.facts, row.pieces)
    )


def derive_card_status(state: str, health: str) -> CardStatus:
    """Return what a card's state and health mean for placement."""
    # In this order: a card that drains is shown as draining also while it is unhealthy.
    if state == DeviceState.DRAINING:
        return CardStatus.DRAINING
    if state == DeviceState.OBSERVED:
        return CardStatus.NOT_ADOPTED
    if state == DeviceState.LOST or health == DeviceHealth.FAILED:
        return CardStatus.UNHEALTHY
    return CardStatus.OPEN


def build_host_columns(rows: Sequence[Any], numa: NumaNodes | None = None) -> HostColumns | None:
    """Build the columns of processors and main memory; None if no node reports any."""
    known = [read_host_capacity(row.node_facts) for row in rows]
    if not any(known):
        return None
    # A node that reports none has none to give, once other nodes of the pool report theirs.
    cpu, size = np.array([capacity or (0, 0) for capacity in known], dtype=np.int64).T
    used_cpu = np.array([row.used_cpu_milli for row in rows], dtype=np.int64)
    used_size = np.array([row.used_host_bytes for row in rows], dtype=np.int64)
    return HostColumns(cpu, size, cpu - used_cpu, size - used_size, numa)
