"""Decisions in one process: a gang of 512, why a gang cannot run, 4,000 jobs on 500 nodes, 10,000
running jobs.

The peer's figures are not measured here: they are those of the sample report of KAI-Scheduler's own
scale test (github.com/kai-scheduler/KAI-Scheduler, 2026-07-03), and include its API server and
binding. Ours are decisions alone: snapshot to plan, and applying each plan to the next snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.rows import Row, median_row
from bench.running_pool import RunningPool
from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape, TopologyConstraint
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import occupied, racked, running
from tests.support.scheduling_builders import apply, cards, snapshot, tenant, waiting, whole

NAME = "scheduling"
PEER = "KAI-Scheduler's scale-test sample of 2026-07-03, with its API server"
COMMAND = "python -m bench scheduling"
TIMES = 5
HEADS = 64
RUNNING = (100, 1_000, 10_000)
HOUR = 3600 * 10**9


def run(out: Path) -> list[Row]:
    return [
        _row("512-pod gang on 512 nodes", _gang_of_512(None), 49.4, 1.0),
        _row("512-pod gang on 512 nodes, in one block of racks", _gang_of_512("block"), 48.7, 1.0),
        _row("cannot run because, 10-pod gang, 4,000 gangs waiting", _cannot_run(), 249.5, 1.0),
        _row("fill 500 nodes with 4,000 single-card jobs", _fill, 398.0, 5.0, times=1),
        *_beside_running(),
    ]


def _row(
    figure: str, act: Callable[[], object], peer: float, limit: float, times: int = TIMES
) -> Row:
    samples = [_seconds(act) for _ in range(times)]
    row = median_row(figure, COMMAND, samples, limit=limit, note="processor time")
    return replace(row, peer=peer, peer_command=PEER)


def _beside_running() -> list[Row]:
    """A plan on the board that lives on, after one job ended and one came, beside the same plan
    from nothing."""
    rows = []
    for size in RUNNING:
        pool = RunningPool(size)
        boards = PlanningState(pool.snapshot()), None
        mine, anew = list[float](), list[float]()
        for _ in range(TIMES * 2):
            pool.turn_over()
            before = pool.snapshot()
            for pool.board, samples in zip(boards, (mine, anew), strict=True):
                samples.append(_seconds(lambda pool=pool, before=before: pool.plan(before)))  # type: ignore[misc]
        figure = f"plan for one claim beside {size:,} running jobs, a head promised its start"
        rows.append(
            median_row(
                figure,
                COMMAND,
                mine,
                peer_samples=anew,
                peer_command="the same plan without a board that lives on",
                note="processor time; the peer is ours from nothing",
                limit_ratio=1.0,
            )
        )
    return rows


def _seconds(act: Callable[[], object]) -> float:
    """Processor time of this thread."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


def _gang(name: str, size: int, within: TopologyConstraint, at: int = 0) -> WaitingClass:
    shape = Shape(WHOLE, None, 8)
    members = tuple(f"{name}-{n}" for n in range(size))
    root = GangGroup("all", (GangRole("worker", shape, size, size),), within)
    return WaitingClass("nlp", 0, shape, members, size, at, gang=Gang(name, root, members))


def _gang_of_512(level: str | None) -> Callable[[], None]:
    blocks, racks = tuple(0 for _ in range(512)), tuple(n // 16 for n in range(512))
    pool = racked("512x8xH100", block=blocks, rack=racks)
    before = snapshot(pool, _gang("big", 512, TopologyConstraint(level)))

    def act() -> None:
        assert len(cycle(before, 0).placements) == 512

    return act


def _cannot_run() -> Callable[[], None]:
    """One cycle over the whole queue from nothing, every card held by a job of its own: the
    sentence for who asks."""
    pool = cards("500x8xH100")
    jobs = tuple(_job(pool, n) for n in range(len(pool)))
    gangs = [_gang(f"g{n}", 10, TopologyConstraint(), at=n) for n in range(4000)]
    before = replace(
        snapshot(occupied(pool, *jobs), *gangs, tenants={"other": tenant()}), running=jobs
    )

    def act() -> None:
        answer = explain_claim(before, gangs[-1], HOUR)
        assert answer.sentence.startswith(
            "10 of role worker must start together and none finds room"
        )

    return act


def _job(pool: CardTable, n: int) -> RunningJob:
    """Of every second the end is known."""
    job = running(pool, f"r{n}", pool.uuids[n], want=whole(), since=n)
    return replace(job, ends_ns=2 * HOUR + n) if n % 2 else job


def _fill() -> None:
    """All 4,000 jobs as the pool does it: plans of at most 64, each applied before the next."""
    left = [f"j{n:04}" for n in range(4000)]
    now: Snapshot = snapshot("500x8xH100", waiting(*left[:HEADS], want=whole(), count=len(left)))
    board, placed = PlanningState(now), 0
    while True:
        plan = cycle(now, 0, limit=HEADS, board=board)
        if not plan.placements:
            break
        placed += len(plan.placements)
        queue = left[placed : placed + HEADS]
        rest = (waiting(*queue, want=whole(), count=len(left) - placed),) if queue else ()
        now = replace(apply(replace(now, waiting=()), plan), waiting=rest)
    assert placed == 4000
