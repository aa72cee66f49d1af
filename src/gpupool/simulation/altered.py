"""A pool's columns with nodes added and nodes taken away, and everything that points into them kept true."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpupool.model.quota import Amount
from gpupool.scheduling.feasible import kinds_of
from gpupool.scheduling.numa_nodes import NumaNodes
from gpupool.scheduling.snapshot import Bools, Cards, Hosts, Ints, Level, Running, Snapshot
from gpupool.simulation.trace import Node
from gpupool.simulation.world import columns_of

_PLENTY = 1 << 50
"""Of processors and main memory, for a node of which neither is known."""


@dataclass(frozen=True)
class Altered:
    """`homeless` are the jobs that ran on what was taken away; the snapshot does not have them."""

    snapshot: Snapshot
    homeless: tuple[Running, ...]


def altered(snapshot: Snapshot, add: Sequence[Node], remove: Collection[str]) -> Altered:
    """The snapshot with these nodes more and those (by name) less; cards that stay keep their order."""
    if not add and not remove:
        return Altered(snapshot, ())
    cards = snapshot.cards
    keep = np.array([name not in remove for name in cards.nodes], dtype=np.bool_)
    rows = keep[cards.node] if len(cards) else np.zeros(0, dtype=np.bool_)
    place = np.cumsum(rows) - 1
    stays = [all(rows[row] for row in one.rows) for one in snapshot.running]
    running = tuple(_moved(one, place) for one, stay in zip(snapshot.running, stays, strict=True) if stay)
    homeless = tuple(one for one, stay in zip(snapshot.running, stays, strict=True) if not stay)
    left = _cut(cards, keep, rows)
    # A job on several cards has them all on one node, so what is homeless held nothing of what is left.
    tenants = dict(snapshot.tenants)
    for one in homeless:
        held = tenants[one.tenant].held - Amount(sum(one.milli), sum(one.sizes))
        tenants[one.tenant] = replace(tenants[one.tenant], held=held)
    columns = _joined(left, columns_of(add)) if add else left
    return Altered(replace(snapshot, cards=columns, running=running, tenants=tenants), homeless)


def _moved(one: Running, place: Ints) -> Running:
    return replace(one, rows=tuple(int(place[row]) for row in one.rows))


def _cut(cards: Cards, keep: Bools, rows: Bools) -> Cards:
    number = np.cumsum(keep) - 1
    kept = np.flatnonzero(keep).tolist()
    hosts = None if cards.hosts is None else _cut_hosts(cards.hosts, keep, rows)
    return replace(
        cards,
        uuids=_chosen(cards.uuids, np.flatnonzero(rows).tolist()),
        nodes=_chosen(cards.nodes, kept),
        node_labels=tuple(cards.node_labels[node] for node in kept),
        model=cards.model[rows],
        node=number[cards.node[rows]],
        status=cards.status[rows],
        memory_bytes=cards.memory_bytes[rows],
        free_milli=cards.free_milli[rows],
        free_bytes=cards.free_bytes[rows],
        generation=cards.generation[rows],
        hosts=hosts,
        levels=tuple(replace(level, of_node=level.of_node[keep]) for level in cards.levels),
        links={int(number[node]): links for node, links in cards.links.items() if keep[node]},
        cuts={int(np.count_nonzero(rows[:row])): cut for row, cut in cards.cuts.items() if rows[row]},
    )


def _cut_hosts(hosts: Hosts, keep: Bools, rows: Bools) -> Hosts:
    cpu, size, free_cpu, free_size = (column[keep] for column in _of_hosts(hosts))
    return Hosts(cpu, size, free_cpu, free_size, hosts.numa and _cut_numa(hosts.numa, keep, rows))


def _cut_numa(numa: NumaNodes, keep: Bools, rows: Bools) -> NumaNodes:
    there = keep[numa.node]
    number, place = np.cumsum(keep) - 1, np.append(np.cumsum(there) - 1, -1)
    return NumaNodes(
        number[numa.node[there]],
        numa.number[there],
        numa.cpu_milli[there],
        numa.memory_bytes[there],
        numa.free_cpu_milli[there],
        numa.free_memory_bytes[there],
        of_card=place[numa.of_card[rows]],
    )


def _joined(left: Cards, more: Cards) -> Cards:
    kinds = tuple(dict.fromkeys([*kinds_of(left), *kinds_of(more)]))
    model = np.array([kinds.index(kind) for kind in kinds_of(more)], dtype=np.int64)[more.model]
    return replace(
        left,
        uuids=left.uuids + more.uuids,
        models=tuple(kind.model for kind in kinds),
        vendors=tuple(kind.vendor for kind in kinds),
        nodes=left.nodes + more.nodes,
        node_labels=left.node_labels + more.node_labels,
        model=_both(left.model, model),
        node=_both(left.node, more.node + len(left.nodes)),
        status=_both(left.status, more.status),
        memory_bytes=_both(left.memory_bytes, more.memory_bytes),
        free_milli=_both(left.free_milli, more.free_milli),
        free_bytes=_both(left.free_bytes, more.free_bytes),
        generation=_both(left.generation, more.generation),
        hosts=left.hosts and _more_hosts(left.hosts, more),
        levels=tuple(_more_level(level, len(more.nodes)) for level in left.levels),
        cuts={**left.cuts, **{len(left) + row: cut for row, cut in more.cuts.items()}},
    )


def _more_hosts(hosts: Hosts, more: Cards) -> Hosts:
    plenty = np.full(len(more.nodes), _PLENTY, dtype=np.int64)
    added = Hosts(plenty, plenty, plenty, plenty) if more.hosts is None else more.hosts
    pairs = zip(_of_hosts(hosts), _of_hosts(added), strict=True)
    cpu, size, free_cpu, free_size = (_both(first, second) for first, second in pairs)
    unknown = np.full(len(more), -1, dtype=np.int64)
    numa = hosts.numa and replace(hosts.numa, of_card=_both(hosts.numa.of_card, unknown))
    return Hosts(cpu, size, free_cpu, free_size, numa)


def _of_hosts(hosts: Hosts) -> tuple[Ints, Ints, Ints, Ints]:
    return hosts.cpu_milli, hosts.memory_bytes, hosts.free_cpu_milli, hosts.free_memory_bytes


def _more_level(level: Level, nodes: int) -> Level:
    return replace(level, of_node=_both(level.of_node, np.full(nodes, -1, dtype=np.int64)))


def _both(first: Ints, second: Ints) -> Ints:
    return np.concatenate((first, second))


def _chosen(names: Sequence[str], places: Iterable[int]) -> tuple[str, ...]:
    return tuple(names[place] for place in places)
