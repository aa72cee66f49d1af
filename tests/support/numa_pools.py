"""Pools whose hosts have two NUMA nodes, and plans on them."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.topology import LinkKind, Topology
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.plan import Plan
from tests.support.scheduling_builders import Used, cards, snapshot, waiting

REQUIRED, WISHED = TopologyConstraint(required="numa"), TopologyConstraint(preferred="numa")


def pool(
    nodes: str = "1x4xH200", used: Used | None = None, held: dict[int, int] | None = None
) -> CardTable:
    """Nodes with 16 processors and 64 GiB, cards 0 and 1 on NUMA node 0, 2 and 3 on 1; `held` are
    milli by entry."""
    made = cards(nodes, used=used, hosts=(16_000, 64 * GIB), numa=2)
    assert made.hosts is not None
    assert made.hosts.numa is not None
    for entry, milli in (held or {}).items():
        made.hosts.numa.free_cpu_milli[entry] -= milli
        made.hosts.free_cpu_milli[made.hosts.numa.node[entry]] -= milli
    links = {n: halves(made.uuids[4 * n : 4 * n + 4]) for n in range(len(made.nodes))}
    return replace(made, links=links)


def halves(uuids: tuple[str, ...]) -> Topology:
    groups = frozenset(uuids[:2]), frozenset(uuids[2:])
    return Topology(
        uuids, numa={u: n // 2 for n, u in enumerate(uuids)}, domains={LinkKind.PCIE_SWITCH: groups}
    )


def planned(columns: CardTable, *shapes: Shape) -> Plan:
    classes = (waiting(f"j{n}", want=shape, at=n) for n, shape in enumerate(shapes))
    return cycle(snapshot(columns, *classes), 10)


Told = list[tuple[list[str], list[tuple[int, int]]]]


def told(plan: Plan) -> Told:
    """Per placement its cards and its processors by NUMA node."""
    return [
        ([seat.device for seat in one.seats], [(part.numa, part.cpu_milli) for part in one.numa])
        for one in plan.placements
    ]


def share(
    cpu: int, *, count: int = 1, within: TopologyConstraint = ANYWHERE, milli: int = 200
) -> Shape:
    return Shape(milli, GIB, count, cpu_milli=cpu, within=within)
