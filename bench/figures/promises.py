"""Promised starts and estimates beside several tenants, priorities, gangs, quotas: kept, broken,
how sure they were.

Lives of the shipped cycle on a virtual clock (`gpupool.simulation`): made-up traces with many jobs
that have to wait, three tenants of weights 1:2:3, three priorities of which the lowest may be
preempted, gangs, and limits of one to four times the run time. In every third life each tenant is
guaranteed a quarter of the pool and may borrow; in every fourth a part of the jobs names no limit.
Lives go on until so many starts were promised. A start is a promise where `explain` says "at the
latest"; every other start that cards are kept for is told with its chance.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench.rows import Row
from gpupool.base.units import GIB
from gpupool.model.quota import UNLIMITED, WEIGHT, Quota, ResourceAmount
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.timeline.start_records import (
    ESTIMATE,
    PROMISE,
    ForecastOutcome,
    compute_calibration_error_pct,
    group_by_tenth,
)
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace
from gpupool.simulation.traces.trace import TraceNode

NAME = "promises"
COMMAND = "python -m bench promises"
ENOUGH = 2000
SURE = 200
"""With so many estimates the standard error of a tenth is 3.5 points at most."""
PROCESSES = 2
FIRST_SEED = 42
BUSY = TraceParameters(
    days=2,
    cards=32,
    load_pct=90,
    median_seconds=1200,
    sigma_pct=100,
    share_pct=15,
    one_card_pct=40,
    several_pct=33,
    gang_pct=12,
    limit_pct=100,
    low_pct=20,
    high_pct=5,
    tenants=3,
)
POOL = [
    TraceNode(f"n{number}", (("H200", 140 * GIB),) * BUSY.cards_per_node) for number in range(4)
]
GUARANTEED = Quota(nominal_milli=8000, borrowing_milli=16000)


@dataclass(frozen=True)
class Life:
    """What came of one seed."""

    seed: int
    jobs: int
    kept: int
    broken: int
    estimates: tuple[ForecastOutcome, ...]
    estimated: tuple[int, int]
    seconds: float
    """Of processor time."""


def run(out: Path) -> list[Row]:
    lives = list[Life]()
    with ProcessPoolExecutor(PROCESSES) as pool:
        while sum(one.kept + one.broken for one in lives) < ENOUGH:
            seeds = range(FIRST_SEED + len(lives), FIRST_SEED + len(lives) + 2 * PROCESSES)
            for one in pool.map(live, seeds):
                lives.append(one)
                note(out, one)
    return rows(lives)


def note(out: Path, one: Life) -> None:
    """A line for each life as it ends: a run of minutes that is cut off leaves what it found."""
    with (out / "promises-lives.txt").open("a") as file:
        came, missed = one.estimated
        file.write(
            f"seed {one.seed}: {one.jobs} jobs, promises {one.kept} kept {one.broken} broken, "
        )
        file.write(f"estimates {came} true {missed} false, {one.seconds:.1f} s of processor time\n")


def live(seed: int) -> Life:
    began = time.process_time()
    days = 1 if seed % 3 == 0 else BUSY.days
    limits = 70 if seed % 4 == 0 else BUSY.limit_pct
    trace = generate_trace(replace(BUSY, seed=seed, days=days, limit_pct=limits))
    quota = GUARANTEED if seed % 3 == 0 else UNLIMITED
    tenants = {
        name: TenantView(quota, ResourceAmount(), weight_milli=weight * WEIGHT)
        for name, weight in trace.weights.items()
    }
    replay = Replay(SimulatedPool(Snapshot(0, build_card_table(POOL), tenants, ())))
    replay.play_arrivals(trace.arrivals)
    kept, broken = replay.start_forecasts.count_outcomes(PROMISE)
    estimates = tuple(one for one in replay.forecast_outcomes if one.told.sort != PROMISE)
    spent = time.process_time() - began
    return Life(
        seed,
        len(trace.arrivals),
        kept,
        broken,
        estimates,
        replay.start_forecasts.count_outcomes(ESTIMATE),
        spent,
    )


def rows(lives: Sequence[Life]) -> list[Row]:
    promised = sum(one.kept + one.broken for one in lives)
    kept, missed = (sum(one.estimated[n] for one in lives) for n in range(2))
    told = [ended for one in lives for ended in one.estimates if ended.told.chance_pct is not None]
    broken = sum(one.broken for one in lives)
    note = f"of {promised} promised, {sum(one.jobs for one in lives)} jobs, {len(lives)} lives"
    off = compute_calibration_error_pct(told)
    return [
        Row("promised starts that were broken", "starts", broken, COMMAND, limit=0, note=note),
        Row("starts that were promised", "starts", promised, COMMAND),
        Row("estimates that came true", "%", round(100 * kept / max(1, kept + missed), 2), COMMAND),
        Row(
            "chances of estimates off what came true",
            "points",
            100.0 if off is None else off,
            COMMAND,
            limit=5,
            note=f"mean over tenths of the chance, of {len(told)} estimates that were told with one",
        ),
        *(_tenth(tenth, each) for tenth, each in group_by_tenth(told).items()),
    ]


def _tenth(tenth: int, each: Sequence[tuple[int, bool]]) -> Row:
    """One tenth by itself; with few estimates chance alone moves it by more than the limit."""
    number, came = len(each), 100 * sum(kept for _, kept in each) / len(each)
    off = abs(sum(chance for chance, _ in each) / number - came)
    return Row(
        f"chances of {10 * tenth} to {10 * tenth + 9} % off what came true",
        "points",
        round(off, 2),
        COMMAND,
        limit=5 if number >= SURE else None,
        note=f"{came:.1f} % of {number} came true"
        + ("" if number >= SURE else f"; no limit below {SURE}"),
    )
