"""Add nodes to a pool's columns and remove nodes from them, with all references adjusted.

A card's row, a node's number and a model's number stand in many columns. Every one of them is
renumbered here, so that a forecast runs on a pool that could exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupool.model.quota import ResourceAmount
from gpupool.model.topology import Topology
from gpupool.scheduling.filtering.feasibility import list_card_kinds
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns, PartitionLayout, TopologyLevel
from gpupool.scheduling.snapshot.claims import RunningJob, SuspendedJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.numa_nodes import NumaNodes
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.traces.trace import TraceNode

#: Processors and main memory of an added node of which neither is known: more than any claim asks
#: for, and far from the end of 64 bits when a pool's nodes are added up.
_PLENTY = 1 << 50


@dataclass(frozen=True)
class AlteredPool:
    """A changed pool; `homeless` are the jobs that ran on removed nodes, which it does not have."""

    snapshot: Snapshot
    homeless: tuple[RunningJob, ...]


def alter_pool(
    snapshot: Snapshot, add: Sequence[TraceNode], remove: Collection[str]
) -> AlteredPool:
    """Return the pool with these nodes more and those (by name) less.

    Cards that stay keep their order. Both snapshots stay usable.
    """
    if not add and not remove:
        return AlteredPool(snapshot, ())
    cards = snapshot.cards
    keep = np.array([name not in remove for name in cards.nodes], dtype=np.bool_)
    rows = keep[cards.node] if len(cards) else np.zeros(0, dtype=np.bool_)
    place = np.cumsum(rows) - 1
    running: list[RunningJob] = []
    homeless: list[RunningJob] = []
    tenants = dict(snapshot.tenants)
    for job in snapshot.running:
        if all(rows[row] for row in job.rows):
            running.append(_move_job(job, place))
            continue
        homeless.append(job)
        # A job on several cards has them all on one node, so a homeless job held nothing of the
        # nodes that stay.
        amount = ResourceAmount(sum(job.milli), sum(job.sizes))
        tenants[job.tenant] = replace(tenants[job.tenant], held=tenants[job.tenant].held - amount)
    columns = _keep_nodes(cards, keep, rows)
    if add:
        columns = _join_tables(columns, build_card_table(add))
    suspended = list[SuspendedJob]()
    for away in snapshot.suspended:
        if all(rows[row] for row in away.rows):
            suspended.append(replace(away, rows=_renumber_rows(away.rows, place)))
    changed = replace(
        snapshot,
        cards=columns,
        running=tuple(running),
        tenants=tenants,
        suspended=tuple(suspended),
    )
    return AlteredPool(changed, tuple(homeless))


def _move_job(job: RunningJob, place: Ints) -> RunningJob:
    return replace(job, rows=_renumber_rows(job.rows, place))


def _renumber_rows(rows: Iterable[int], place: Ints) -> tuple[int, ...]:
    return tuple(int(place[row]) for row in rows)


def _keep_nodes(cards: CardTable, keep: Bools, rows: Bools) -> CardTable:
    """Keep the nodes of `keep` and their cards, which are `rows`."""
    number = np.cumsum(keep) - 1
    kept = np.flatnonzero(keep).tolist()
    hosts = None if cards.hosts is None else _keep_hosts(cards.hosts, keep, rows)
    links: dict[int, Topology] = {}
    for node, scores in cards.links.items():
        if keep[node]:
            links[int(number[node])] = scores
    layouts: dict[int, PartitionLayout] = {}
    for row, layout in cards.layouts.items():
        if rows[row]:
            layouts[int(np.count_nonzero(rows[:row]))] = layout
    place = np.cumsum(rows) - 1
    offers = {int(place[row]): one for row, one in cards.offers.items() if rows[row]}
    return replace(
        cards,
        uuids=_select_names(cards.uuids, np.flatnonzero(rows).tolist()),
        nodes=_select_names(cards.nodes, kept),
        node_labels=tuple(cards.node_labels[node] for node in kept),
        model=cards.model[rows],
        node=number[cards.node[rows]],
        status=cards.status[rows],
        memory_bytes=cards.memory_bytes[rows],
        free_milli=cards.free_milli[rows],
        free_bytes=cards.free_bytes[rows],
        generation=cards.generation[rows],
        unlent_bytes=None if cards.unlent_bytes is None else cards.unlent_bytes[rows],
        hosts=hosts,
        levels=tuple(replace(level, of_node=level.of_node[keep]) for level in cards.levels),
        links=links,
        layouts=layouts,
        offers=offers,
    )


def _keep_hosts(hosts: HostColumns, keep: Bools, rows: Bools) -> HostColumns:
    return HostColumns(
        hosts.cpu_milli[keep],
        hosts.memory_bytes[keep],
        hosts.free_cpu_milli[keep],
        hosts.free_memory_bytes[keep],
        hosts.numa and _keep_numa(hosts.numa, keep, rows),
    )


def _keep_numa(numa: NumaNodes, keep: Bools, rows: Bools) -> NumaNodes:
    there = keep[numa.node]
    number = np.cumsum(keep) - 1
    # A card without a NUMA node has the number -1, which picks the last element: -1 again.
    place = np.append(np.cumsum(there) - 1, -1)
    return NumaNodes(
        number[numa.node[there]],
        numa.number[there],
        numa.cpu_milli[there],
        numa.memory_bytes[there],
        numa.free_cpu_milli[there],
        numa.free_memory_bytes[there],
        of_card=place[numa.of_card[rows]],
    )


def _join_tables(left: CardTable, more: CardTable) -> CardTable:
    kinds = tuple(dict.fromkeys([*list_card_kinds(left), *list_card_kinds(more)]))
    model = np.array([kinds.index(kind) for kind in list_card_kinds(more)], dtype=np.int64)[
        more.model
    ]
    return replace(
        left,
        uuids=left.uuids + more.uuids,
        models=tuple(kind.model for kind in kinds),
        vendors=tuple(kind.vendor for kind in kinds),
        nodes=left.nodes + more.nodes,
        node_labels=left.node_labels + more.node_labels,
        model=_join_columns(left.model, model),
        node=_join_columns(left.node, more.node + len(left.nodes)),
        status=_join_columns(left.status, more.status),
        memory_bytes=_join_columns(left.memory_bytes, more.memory_bytes),
        free_milli=_join_columns(left.free_milli, more.free_milli),
        free_bytes=_join_columns(left.free_bytes, more.free_bytes),
        generation=_join_columns(left.generation, more.generation),
        unlent_bytes=_join_unlent(left, more),
        hosts=left.hosts and _join_hosts(left.hosts, more),
        levels=tuple(_extend_level(level, len(more.nodes)) for level in left.levels),
        layouts={**left.layouts, **{len(left) + row: cut for row, cut in more.layouts.items()}},
    )


def _join_unlent(left: CardTable, more: CardTable) -> Ints | None:
    if left.unlent_bytes is None:
        return None
    return _join_columns(left.unlent_bytes, np.zeros(len(more), dtype=np.int64))


def _join_hosts(hosts: HostColumns, more: CardTable) -> HostColumns:
    plenty = np.full(len(more.nodes), _PLENTY, dtype=np.int64)
    added = HostColumns(plenty, plenty, plenty, plenty) if more.hosts is None else more.hosts
    pairs = zip(_list_host_columns(hosts), _list_host_columns(added), strict=True)
    cpu, size, free_cpu, free_size = (_join_columns(first, second) for first, second in pairs)
    unknown = np.full(len(more), -1, dtype=np.int64)
    numa = hosts.numa and replace(hosts.numa, of_card=_join_columns(hosts.numa.of_card, unknown))
    return HostColumns(cpu, size, free_cpu, free_size, numa)


def _list_host_columns(hosts: HostColumns) -> tuple[Ints, Ints, Ints, Ints]:
    return hosts.cpu_milli, hosts.memory_bytes, hosts.free_cpu_milli, hosts.free_memory_bytes


def _extend_level(level: TopologyLevel, nodes: int) -> TopologyLevel:
    return replace(level, of_node=_join_columns(level.of_node, np.full(nodes, -1, dtype=np.int64)))


def _join_columns(first: Ints, second: Ints) -> Ints:
    return np.concatenate((first, second))


def _select_names(names: Sequence[str], places: Iterable[int]) -> tuple[str, ...]:
    return tuple(names[place] for place in places)
