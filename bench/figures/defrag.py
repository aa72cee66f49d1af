"""Defragmentation: how long a plan takes; whole nodes and gangs regained per move after a churn of
gangs and shares.

The churn (seeded): a pool of 100 nodes of 8 cards is filled with shares, single cards and jobs of
four cards, all of which may be moved; then random jobs end and random others come, the fullest node
first, until most have changed once. What is left is scattered, as it is in a pool that lives.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.rows import Row
from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.rebalancing.defragment import DefragmentPlan, plan_defragmentation
from gpupool.scheduling.rebalancing.defragment_cp_sat import make_cp_sat_solver
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import snapshot

NAME = "defrag"
NOW = 10**6 * 10**9
CAP_SECONDS = 5.0
SEEDS = range(5)
GANG_NODES = 2
PEER_SECONDS = 456.0
PEER = (
    "KAI's scale-test sample of 2026-07-03: consolidation for 41 ten-pod jobs, API server included"
)
MIX = (
    (Shape(200, 8 * GIB), 0.3),
    (Shape(500, 30 * GIB), 0.2),
    (Shape(WHOLE), 0.4),
    (Shape(WHOLE, count=4), 0.1),
)


def run(out: Path) -> list[Row]:
    del out
    return [*_large(), *_churned()]


def _large() -> list[Row]:
    """500 nodes on which 720 single-card jobs lie scattered; 41 jobs of ten whole nodes want to
    start."""
    random = np.random.default_rng(1)
    rows = random.choice(4000, 720, replace=False)
    before = _with_jobs(
        snapshot("500x8xH200"), [((int(row),), Shape(WHOLE)) for row in rows], random
    )
    return [_timed(before, None), _timed(before, CAP_SECONDS)]


def _timed(before: Snapshot, seconds: float | None) -> Row:
    began = time.perf_counter()
    plan = _plan(before, 410, seconds)
    took = time.perf_counter() - began
    whole = plan.gain.nodes[1]
    return Row(
        f"plan for 41 jobs of ten nodes on 500 nodes, {plan.by}",
        "s",
        took,
        "python -m bench defrag",
        peer=PEER_SECONDS,
        peer_command=PEER,
        limit=10.0,
        note=f"{len(plan.moves)} moves, {plan.lost_seconds} s of work lost, {whole // 10} of 41 jobs fit after it",
    )


def _plan(before: Snapshot, wanted: int | None, seconds: float | None) -> DefragmentPlan:
    return plan_defragmentation(
        before, NOW, wanted=wanted, solver=None if seconds is None else make_cp_sat_solver(seconds)
    )


def _churned() -> list[Row]:
    pools = [churned(seed) for seed in SEEDS]
    ways: dict[str, Callable[[Snapshot], DefragmentPlan]] = {
        "greedy": lambda before: _plan(before, None, None),
        "with the solver": lambda before: _plan(before, None, CAP_SECONDS),
    }
    return [
        row for name, way in ways.items() for row in _gains(name, [way(before) for before in pools])
    ]


def _gains(name: str, plans: list[DefragmentPlan]) -> list[Row]:
    moves = sum(len(plan.moves) for plan in plans)
    nodes = sum(plan.gain.nodes[1] - plan.gain.nodes[0] for plan in plans)
    gangs = sum(
        plan.gain.nodes[1] // GANG_NODES - plan.gain.nodes[0] // GANG_NODES for plan in plans
    )
    lost = sum(plan.lost_seconds for plan in plans)
    note = (
        f"{nodes} nodes and {gangs} gangs of {GANG_NODES} nodes by {moves} moves in "
        f"{len(plans)} pools, {lost} s lost"
    )
    command = "python -m bench defrag"
    return [
        Row(
            f"after churn, {name}: moves for one whole node",
            "moves",
            moves / max(nodes, 1),
            command,
            note=note,
        ),
        Row(
            f"after churn, {name}: moves for one more gang of {GANG_NODES} nodes",
            "moves",
            moves / max(gangs, 1),
            command,
        ),
    ]


def churned(seed: int) -> Snapshot:
    """A pool of 100 nodes after its churn."""
    random = np.random.default_rng(seed)
    empty = snapshot("100x8xH200")
    free, jobs = FreeCapacity(empty.cards), list[tuple[tuple[int, ...], Shape]]()
    while _used(free) < 0.85 and _come(free, jobs, random):
        pass
    for _ in range(2 * len(jobs)):
        _end(free, jobs, int(random.integers(len(jobs))))
        if _used(free) < 0.7:
            _come(free, jobs, random)
    return _with_jobs(empty, jobs, random)


def _used(free: FreeCapacity) -> float:
    return 1 - float(free.milli.sum()) / (WHOLE * len(free.milli))


def _come(
    free: FreeCapacity, jobs: list[tuple[tuple[int, ...], Shape]], random: np.random.Generator
) -> bool:
    shape = MIX[random.choice(len(MIX), p=[part for _, part in MIX])][0]
    fit = ClaimFit(shape, free)
    nodes = np.flatnonzero(fit.roomy)
    if len(nodes) == 0:
        return False
    node = int(nodes[np.argmin(free.get_compute_grid(nodes).sum(axis=1))])
    rows = free.get_node_rows(node)
    rows = rows[fit.why[rows] == FITS]
    rows = rows[np.argsort(free.milli[rows], kind="stable")][: shape.count]
    free.take_seats(node, rows, shape.gpu_milli, fit.need[rows])
    jobs.append((tuple(map(int, rows)), shape))
    return True


def _end(free: FreeCapacity, jobs: list[tuple[tuple[int, ...], Shape]], at: int) -> None:
    rows, shape = jobs.pop(at)
    seats = np.array(rows)
    sizes = np.array([shape.memory_on(int(size)) for size in free.cards.memory_bytes[seats]])
    free.release_seats(int(free.cards.node[seats[0]]), seats, shape.gpu_milli, sizes)


def _with_jobs(
    empty: Snapshot, jobs: list[tuple[tuple[int, ...], Shape]], random: np.random.Generator
) -> Snapshot:
    milli, size, running = empty.cards.free_milli.copy(), empty.cards.free_bytes.copy(), []
    for number, (rows, shape) in enumerate(jobs):
        sizes = tuple(shape.memory_on(int(empty.cards.memory_bytes[row])) for row in rows)
        milli[list(rows)] -= shape.gpu_milli
        size[list(rows)] -= sizes
        began = NOW - int(random.integers(60, 36_000)) * 10**9
        held = (shape.gpu_milli,) * len(rows)
        running.append(
            RunningJob(f"j{number}", "nlp", 0, rows, held, sizes, shape, began, preemptible=True)
        )
    return replace(
        empty, cards=replace(empty.cards, free_milli=milli, free_bytes=size), running=tuple(running)
    )
