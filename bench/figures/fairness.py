"""Card-time of three tenants by weight in a full pool; reclaims that a guaranteed claim waits for.
Virtual time."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.rows import Row
from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.model.quota import GPU, UNLIMITED, WEIGHT, Quota, QuotaLimit, ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool, build_card_table
from gpupool.simulation.traces.trace import TraceNode

NAME = "fairness"
WEIGHTS: Mapping[str, int] = {"one": 1, "two": 2, "three": 3}
WINDOW_S = 14 * 86_400
CARDS, NODES = 8, 2
QUEUED = 20
"""Jobs of each tenant that wait at any time."""
ROUNDS = 200
COMMAND = "python -m bench fairness"


def run(out: Path) -> list[Row]:
    shares = {seed: card_time(seed) for seed in (1, 2, 3)}
    waits = [reclaims(seed) for seed in (1, 2, 3)]
    record = {"card_time_part": shares, "reclaims_waited_for": waits}
    (out / "fairness-runs.json").write_text(json.dumps(record, indent=1) + "\n")
    rows = [_share_row(name, [found[name] for found in shares.values()]) for name in WEIGHTS]
    worst = max(max(each) for each in waits)
    note = f"{sum(map(len, waits))} claims inside a nominal quota of 4 cards; half of all claims are not preemptible"
    return [
        *rows,
        Row(
            "reclaims a guaranteed claim waits for, at most", "", worst, COMMAND, limit=1, note=note
        ),
    ]


def _share_row(name: str, parts: list[float]) -> Row:
    due = 100 * WEIGHTS[name] / sum(WEIGHTS.values())
    off = max(100 * abs(100 * part / due - 1) for part in parts)
    got = ", ".join(f"{100 * part:.2f} %" for part in parts)
    return Row(
        f"weight {WEIGHTS[name]} of 1:2:3: card-time off its due",
        "%",
        off,
        COMMAND,
        limit=2,
        samples=tuple(100 * part for part in parts),
        note=f"due {due:.2f} % of the card-time that was held, got {got} (14 days, three seeds)",
    )


def card_time(seed: int) -> dict[str, float]:
    """Each tenant's part of the card-time in the window; all have jobs of 20 minutes to 4 hours
    waiting always."""
    draw, tenants = (
        random.Random(seed),
        {n: _view(UNLIMITED, weight) for n, weight in WEIGHTS.items()},
    )
    world = SimulatedPool(Snapshot(0, build_card_table(_nodes(NODES)), tenants, ()))
    board, held, ends = (
        PlanningState(world.take_snapshot(0)),
        dict.fromkeys(WEIGHTS, 0),
        list[tuple[int, str]](),
    )
    now, number = 0, 0
    while now < WINDOW_S:
        for name in WEIGHTS:
            waits = sum(job.key.tenant == name for job in world.list_waiting())
            fresh = [
                _job(name, number + n, now, draw.choice((1, 1, 1, 2)))
                for n in range(QUEUED - waits)
            ]
            number += len(fresh)
            world.enqueue_jobs(fresh)
        for placement in cycle(world.take_snapshot(now * NS), now * NS, board=board).placements:
            job = world.place_job(placement, now * NS)
            end = now + draw.randint(1200, 14_400)
            held[job.key.tenant] += job.shape.count * (min(end, WINDOW_S) - now)
            heapq.heappush(ends, (end, job.id))
        now = ends[0][0]
        while ends and ends[0][0] == now:
            world.release_job(heapq.heappop(ends)[1], now * NS)
    return {name: seconds / sum(held.values()) for name, seconds in held.items()}


def reclaims(seed: int) -> list[int]:
    """Of every guaranteed claim, how many times borrowers were told to leave before it sat.

    Half of what either tenant asks for may not be preempted.
    """
    draw = random.Random(seed)
    tenants = {"guest": _view(_cards(4)), "ours": _view(_cards(4))}
    world = SimulatedPool(Snapshot(0, build_card_table(_nodes(1)), tenants, ()))
    found = []
    for turn in range(ROUNDS):
        now = turn * 3600
        for job in [
            job
            for job in world.running.values()
            if job.key.tenant == "ours" and draw.random() < 0.6
        ]:
            world.release_job(job.id, now * NS)
        world.enqueue_jobs(
            [
                _job("guest", 100 * turn + n, now, draw.choice((1, 2)), preemptible=n % 2 == 0)
                for n in range(8)
            ]
        )
        _place(world, now)
        room = 4 - world.tenants["ours"].held.gpu_milli // 1000
        if room:
            ours = _job(
                "ours", turn, now + 1, draw.randint(1, room), preemptible=draw.random() < 0.5
            )
            world.enqueue_jobs([ours])
            found.append(_until_it_sits(world, ours, now + 600))
    return found


def _until_it_sits(world: SimulatedPool, job: SimulatedJob, now: int) -> int:
    for waited in range(10):
        gone = _place(world, now)
        if job.id in world.running:
            return waited
        for name in gone:
            victim = world.release_job(name, now * NS)
            world.enqueue_jobs([replace(victim, run=None)], again=True)
    raise RuntimeError(f"{job.id} waits in spite of its guarantee")


def _place(world: SimulatedPool, now: int) -> list[str]:
    """One cycle; the jobs that it tells to leave."""
    plan = cycle(world.take_snapshot(now * NS), now * NS)
    for placement in plan.placements:
        world.place_job(placement, now * NS)
    return [eviction.job for eviction in plan.evictions]


def _nodes(count: int) -> list[TraceNode]:
    return [TraceNode(f"n{n}", (("H200", 140 * GIB),) * CARDS) for n in range(count)]


def _view(quota: Quota, weight: int = 1) -> TenantView:
    return TenantView(quota, ResourceAmount(), weight_milli=weight * WEIGHT)


def _cards(nominal: int) -> Quota:
    return Quota.from_limits({GPU: QuotaLimit(nominal * 1000)})


def _job(
    tenant: str, number: int, now: int, count: int, *, preemptible: bool = True
) -> SimulatedJob:
    shape = Shape(1000, count=count)
    key = ClassKey(tenant, 0, shape, preemptible=preemptible)
    return SimulatedJob(f"{tenant}-{number:06}", key, shape, now * NS, None, None, preemptible)
