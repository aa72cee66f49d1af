"""Pools, tenants and queues for tests of the scheduler, in one line each.

    snapshot("2x8xH200", waiting("j1", milli=300, memory=8 * GIB), used={"node-1/0": (600, 0)})

Cards are named `node-1/0`; a pool is `nodes x cards x model`, several joined by `+`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.numa import divide_evenly
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable, HostColumns
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.numa_nodes import NumaNodes, build_numa_nodes
from gpupool.scheduling.snapshot.plan import JobPlacement, Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView

MODELS: Mapping[str, int] = {
    "T4": 15 * GIB,
    "L40S": 45 * GIB,
    "A100-40G": 40 * GIB,
    "A100-80G": 80 * GIB,
    "H100": 80 * GIB,
    "H200": 140 * GIB,
    "MI210": 64 * GIB,
    "MI300X": 190 * GIB,
}
"""Memory per card; round numbers, so that sentences in tests are easy to check."""

Used = Mapping[str, tuple[int, int]]
"""By card name: milli-devices and bytes that are taken."""


def cards(
    pool: str,
    *,
    used: Used | None = None,
    status: Mapping[str, CardStatus] | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    hosts: tuple[int, int] | None = None,
    numa: int = 0,
) -> CardTable:
    """The columns of `2x8xH200`, `4xL40S` (one node) or `1x4xT4+1x2xL40S` (nodes of several kinds).

    `hosts` is what every node has of processors (milli) and main memory (bytes); without it nothing
    is known. With `numa` these and the cards are cut evenly over so many NUMA nodes.
    """
    rows = [(node, model) for node, models in enumerate(_nodes(pool)) for model in models]
    nodes = tuple(f"node-{n + 1}" for n in range(len(_nodes(pool))))
    models = tuple(dict.fromkeys(model for _, model in rows))
    sizes = np.array([MODELS[model] for _, model in rows], dtype=np.int64)
    node = np.array([node for node, _ in rows], dtype=np.int64)
    names = tuple(f"{nodes[n]}/{place}" for n, place in zip(node, _places(node), strict=True))
    taken = np.array([(used or {}).get(name, (0, 0)) for name in names], dtype=np.int64).reshape(
        -1, 2
    )
    unknown = (set(used or {}) | set(status or {})) - set(names)
    assert not unknown, f"no such cards: {unknown}"
    return CardTable(
        uuids=names,
        models=models,
        nodes=nodes,
        node_labels=tuple((labels or {}).get(name, {}) for name in nodes),
        model=np.array([models.index(model) for _, model in rows], dtype=np.int64),
        node=node,
        status=np.array(
            [CARD_STATUS.index((status or {}).get(n, CardStatus.OPEN)) for n in names],
            dtype=np.int64,
        ),
        memory_bytes=sizes,
        free_milli=WHOLE - taken[:, 0],
        free_bytes=sizes - taken[:, 1],
        generation=np.ones(len(names), dtype=np.int64),
        hosts=None
        if hosts is None
        else _hosts(len(nodes), *hosts, _numa(node, hosts, numa) if numa else None),
    )


def _hosts(nodes: int, cpu_milli: int, memory_bytes: int, numa: NumaNodes | None) -> HostColumns:
    """Nodes of one size, with nothing in use."""
    cpu, memory = (
        np.full(nodes, cpu_milli, dtype=np.int64),
        np.full(nodes, memory_bytes, dtype=np.int64),
    )
    return HostColumns(cpu, memory, cpu.copy(), memory.copy(), numa)


def _numa(node: np.ndarray, hosts: tuple[int, int], count: int) -> NumaNodes | None:
    width = np.bincount(node)
    host = divide_evenly(range(count), hosts[0] // 1000, hosts[1])
    each = [
        (int(n), place * count // int(width[n]))
        for n, place in zip(node, _places(node), strict=True)
    ]
    return build_numa_nodes([host] * len(width), each, [()] * len(width))


def _nodes(pool: str) -> list[list[str]]:
    """Per node the models of its cards; `mixed:T4,L40S` is one node with both."""
    found: list[list[str]] = []
    for part in pool.split("+") if pool else []:
        if part.startswith("mixed:"):
            found.append(part.removeprefix("mixed:").split(","))
            continue
        *counts, model = part.split("x")
        nodes, per_node = (1, *map(int, counts))[-2:]
        found.extend([[model] * per_node for _ in range(nodes)])
    return found


def _places(node: np.ndarray) -> list[int]:
    return [int(np.count_nonzero(node[:row] == n)) for row, n in enumerate(node)]


def shape(
    milli: int = 500,
    memory: int | None = 8 * GIB,
    count: int = 1,
    *,
    model: str | None = None,
    sharing: SharingKind = SharingKind.FIXED,
    **labels: str,
) -> Shape:
    return Shape(milli, memory, count, model, tuple(sorted(labels.items())), sharing)


def waiting(
    *heads: str,
    want: Shape | None = None,
    tenant: str = "nlp",
    priority: int = 0,
    count: int | None = None,
    at: int = 0,
    ages: tuple[int, ...] = (),
) -> WaitingClass:
    """A class with these heads; `count` above their number means that more wait behind them."""
    number = len(heads) if count is None else count
    return WaitingClass(
        tenant, priority, want or shape(), heads, number, ages[0] if ages else at, ages
    )


def tenant(
    nominal: int | None = None,
    borrowing: int | None = 0,
    *,
    memory: int | None = None,
    held: int = 0,
    held_memory: int = 0,
) -> TenantView:
    return TenantView(Quota(nominal, borrowing, memory, 0), ResourceAmount(held, held_memory))


def snapshot(
    pool: str | CardTable,
    *classes: WaitingClass,
    tenants: Mapping[str, TenantView] | None = None,
    policy: str = DEFAULT_POLICY,
    used: Used | None = None,
) -> Snapshot:
    """A pool and its queue; tenants that are not given have no limits."""
    columns = cards(pool, used=used) if isinstance(pool, str) else pool
    known = {w.tenant: tenant() for w in classes} | dict(tenants or {})
    return Snapshot(1, columns, known, classes, policy)


def whole(count: int = 1, model: str | None = None) -> Shape:
    return Shape(WHOLE, None, count, model)


def apply(before: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot that a ledger would give after writing the plan: seats taken, heads gone."""
    free_milli, free_bytes = before.cards.free_milli.copy(), before.cards.free_bytes.copy()
    generation = before.cards.generation.copy()
    for seat in (seat for placement in plan.placements for seat in placement.seats):
        row = before.cards.uuids.index(seat.device)
        free_milli[row] -= seat.gpu_milli
        free_bytes[row] -= seat.memory_bytes
        generation[row] += 1
    columns = replace(
        before.cards, free_milli=free_milli, free_bytes=free_bytes, generation=generation
    )
    placed = {placement.job: placement for placement in plan.placements}
    tenants = {
        name: _holding(view, _of(name, before.waiting, placed))
        for name, view in before.tenants.items()
    }
    rest = tuple(w for w in (_without(w, placed) for w in before.waiting) if w.count)
    return replace(
        before, generation=before.generation + 1, cards=columns, tenants=tenants, waiting=rest
    )


def _of(
    name: str, classes: Iterable[WaitingClass], placed: Mapping[str, JobPlacement]
) -> list[JobPlacement]:
    return [placed[job] for w in classes if w.tenant == name for job in w.job_ids if job in placed]


def _holding(view: TenantView, placements: Iterable[JobPlacement]) -> TenantView:
    seats = [seat for placement in placements for seat in placement.seats]
    more = ResourceAmount(
        sum(seat.gpu_milli for seat in seats), sum(seat.memory_bytes for seat in seats)
    )
    return replace(view, held=view.held + more)


def _without(w: WaitingClass, placed: Mapping[str, JobPlacement]) -> WaitingClass:
    kept = [i for i, job in enumerate(w.job_ids) if job not in placed]
    ages = tuple(w.submitted_ns[i] for i in kept) if w.submitted_ns else ()
    heads = tuple(w.job_ids[i] for i in kept)
    oldest = ages[0] if ages else w.oldest_ns
    return replace(
        w,
        job_ids=heads,
        submitted_ns=ages,
        count=w.count - (len(w.job_ids) - len(heads)),
        oldest_ns=oldest,
    )
