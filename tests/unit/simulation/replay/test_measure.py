"""Figures of lives small enough to be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, ResourceAmount
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.plan import Eviction
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.fragments import (
    count_arrivals,
)
from gpupool.simulation.replay.measure import POINTS, LifeFigures, LifeMeter, summarize_waits
from gpupool.simulation.replay.replay import Replay, ReplayOutcome
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.traces.trace import JobArrival
from tests.support.simulation_builders import HALF, WHOLE, job, nodes


def figures(
    cards: int, *arrivals: JobArrival, weights: dict[str, int] | None = None
) -> LifeFigures:
    known = weights or {"default": 1}
    tenants = {name: TenantView(UNLIMITED, ResourceAmount()) for name in known}
    world = SimulatedPool(Snapshot(0, build_card_table(nodes(cards)), tenants, ()))
    meter = LifeMeter(
        world, (arrivals[0].at_ns, arrivals[-1].at_ns), count_arrivals(arrivals), known
    )
    return meter.compute_figures(world, Replay(world, [meter]).play_arrivals(arrivals))


def test_allocation_is_card_time_held_while_work_arrives() -> None:
    found = figures(2, job("a", 0, 50), job("b", 0, 1000), job("last", 100, 1))
    assert found.allocation_pct == 75.0  # 50 + 100 of 2 cards for 100 s
    assert found.utilisation_pct == 75.0
    assert found.span_seconds == 1000


def test_waits_are_measured_by_kind_and_a_gang_waits_once() -> None:
    gang = JobArrival("a", 0, WHOLE, 10 * NS, gang="g", members=2)
    found = figures(
        2,
        gang,
        job("card", 0, 5),
        job("share", 1, 5, HALF),
        job("wide", 2, 5, Shape(1000, count=2)),
    )
    assert {kind: waits.jobs for kind, waits in found.waits.items()} == {
        "all": 4,
        "gang": 1,
        "card": 1,
        "share": 1,
        "cards": 1,
    }
    assert found.waits["gang"].p50 == 0
    assert found.waits["card"].p50 == 10


def test_percentiles_are_nearest_ranks_and_unknown_beyond_those_that_started() -> None:
    waits = [n * NS for n in range(1, 101)]
    told = summarize_waits(waits, 0)
    assert (told.p50, told.p95, told.p99, told.mean) == (50, 95, 99, 50.5)
    told = summarize_waits(waits[:96], 4)
    assert (told.jobs, told.p50, told.p95, told.p99, told.mean) == (100, 50, 95, None, None)
    assert summarize_waits([], 0).p50 is None


def test_tenants_get_their_part_of_card_time_beside_their_weight() -> None:
    found = figures(
        2,
        job("a", 0, 100, tenant="x"),
        job("b", 0, 50, tenant="y"),
        job("c", 100, 1, tenant="y"),
        weights={"x": 1, "y": 3},
    )
    assert found.tenants["x"].part_pct == pytest.approx(66.667)
    assert found.tenants["x"].weight_pct == 25
    assert found.tenants["y"].card_hours == pytest.approx(50 / 3600, abs=1e-3)


def test_what_an_eviction_lost_is_allocated_but_of_no_use() -> None:
    world = SimulatedPool(
        Snapshot(
            0, build_card_table(nodes(1)), {"default": TenantView(UNLIMITED, ResourceAmount())}, ()
        )
    )
    meter = LifeMeter(world, (0, 100 * NS), ExpectedDemand(), {"default": 1})
    replay = Replay(world, [meter], until_ns=40 * NS)
    replay.play_arrivals([job("a", 0, 90)])
    running = world.running["a"]
    meter.on_eviction(running, Eviction("a", "b", 30, "for b"), 40 * NS)
    world.release_job("a", 40 * NS)
    found = meter.compute_figures(world, ReplayOutcome(ended_ns=100 * NS))
    assert (found.allocation_pct, found.utilisation_pct, found.evictions) == (40, 10, 1)
    assert found.lost_card_hours == pytest.approx(30 / 3600, abs=1e-3)


def test_a_timeline_stays_small_however_long_the_pool_runs_dry() -> None:
    found = figures(1, job("a", 0, 10**7), job("b", POINTS * 10, 1))
    assert len(found.timeline) < 4 * POINTS
    steps = np.diff([one.at_ns for one in found.timeline])
    assert len(set(steps)) == 1
