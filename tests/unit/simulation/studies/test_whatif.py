"""The pool played forward with a change and without: what starts now, what waits how long, what is
left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.quota import UNLIMITED, Quota, ResourceAmount
from gpupool.scheduling.snapshot.cards import TopologyLevel
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.timeline.start_records import ForecastTally, StartForecasts
from gpupool.simulation.replay.pool_changes import alter_pool
from gpupool.simulation.replay.world import build_card_table
from gpupool.simulation.studies.whatif import PoolChange, forecast_pool
from gpupool.simulation.traces.trace import TraceNode

SIZE = 140 * GIB
WHOLE, WIDE = Shape(1000), Shape(1000, count=4)
NOW = 1000 * NS
DAY = 86400 * NS


def node(name: str, cards: int, model: str = "H200") -> TraceNode:
    return TraceNode(name, ((model, SIZE),) * cards)


def runs(job: str, row: int, ends: int | None, tenant: str = "nlp") -> RunningJob:
    """On a whole card, since 0; `ends` in seconds from now."""
    return RunningJob(
        job,
        tenant,
        0,
        (row,),
        (1000,),
        (SIZE,),
        WHOLE,
        0,
        None if ends is None else NOW + ends * NS,
    )


def waits(
    *jobs: str, shape: Shape = WHOLE, count: int | None = None, seconds: int | None = 60
) -> WaitingClass:
    return WaitingClass("nlp", 0, shape, jobs, count or len(jobs), 900 * NS, seconds=seconds)


def pool(
    nodes: list[TraceNode],
    running: list[RunningJob],
    *waiting: WaitingClass,
    quota: Quota = UNLIMITED,
) -> Snapshot:
    cards = build_card_table(nodes)
    held = {"nlp": ResourceAmount(), "cv": ResourceAmount()}
    for one in running:
        cards.free_milli[list(one.rows)] -= 1000
        cards.free_bytes[list(one.rows)] -= SIZE
        held[one.tenant] += ResourceAmount(1000, SIZE)
    tenants = {"nlp": TenantView(quota, held["nlp"]), "cv": TenantView(UNLIMITED, held["cv"])}
    return Snapshot(1, cards, tenants, waiting, "binpack", tuple(running))


FULL = pool([node("a", 2)], [runs("r0", 0, 50), runs("r1", 1, 500)], waits("w0", "w1", "w2"))


def test_as_it_is_jobs_start_when_what_runs_ends() -> None:
    found = forecast_pool(FULL, PoolChange(), NOW, DAY)
    assert (found.queue.waiting, found.queue.start_now, found.queue.start_later) == (3, 0, 3)
    # Card 0 comes back after 50 s, then every 60 s; all have waited 100 s already.
    assert (found.queue.waits.p50, found.queue.waits.p95) == (210, 270)
    assert (found.allocation_now_pct, found.largest_milli, found.whole_nodes, found.no_end) == (
        100,
        0,
        0,
        0,
    )


def test_claims_that_wait_have_promised_starts_and_estimates_with_their_chance() -> None:
    found = forecast_pool(FULL, PoolChange(), NOW, DAY)
    assert (found.queue.promised, found.queue.estimated, found.queue.chance_pct) == (1, 0, None)
    late = pool([node("a", 2)], [runs("r0", 0, 7200), runs("r1", 1, 9000)], waits("w0"))
    book = StartForecasts({"head normal hours": ForecastTally.from_totals(60, 40)})
    found = forecast_pool(late, PoolChange(), NOW, DAY, book)
    assert (found.queue.promised, found.queue.estimated, found.queue.chance_pct) == (0, 1, 60)
    assert (found.tenants["nlp"].estimated, found.tenants["cv"].estimated) == (1, 0)


def test_what_was_promised_is_kept_unless_its_card_is_taken_away() -> None:
    head = waits("w0", seconds=600)
    start = PlannedStart(
        NOW + 50 * NS, (0,), True, (1000,), (SIZE,), "w0", firm=True, devices=(FULL.cards.uuids[0],)
    )
    urgent = WaitingClass("cv", 1000, WHOLE, ("u0",), 1, 950 * NS, seconds=600)
    held = replace(
        pool([node("a", 2)], [runs("r0", 0, 50), runs("r1", 1, 500)], urgent, head),
        previous_starts={head.key: start},
    )
    assert forecast_pool(held, PoolChange(), NOW, DAY).tenants["nlp"].waits.p50 == 150
    assert (
        forecast_pool(replace(held, previous_starts={}), PoolChange(), NOW, DAY)
        .tenants["nlp"]
        .waits.p50
        == 600
    )
    two = pool([node("a", 1), node("b", 1)], [runs("r0", 0, 50), runs("r1", 1, 500)], urgent, head)
    there = replace(start, devices=(two.cards.uuids[0],))
    without = forecast_pool(
        replace(two, previous_starts={head.key: there}), PoolChange(remove=("a",)), NOW, DAY
    )
    assert without.tenants["nlp"].waits.p50 == 1200


def test_more_nodes_start_jobs_now_and_shorten_the_waits() -> None:
    found = forecast_pool(FULL, PoolChange(add=(node("b", 4),)), NOW, DAY)
    assert (found.nodes, found.cards) == (2, 6)
    assert (found.queue.start_now, found.queue.waits.p95) == (3, 100)
    assert found.largest_milli == 1000  # one of the four new cards is left
    assert found.allocation_now_pct == pytest.approx(500 / 6, abs=1e-3)


def test_nodes_of_another_model_help_nobody_who_named_a_model() -> None:
    asks = pool([node("a", 1)], [runs("r", 0, None)], waits("w", shape=Shape(1000, model="H200")))
    assert (
        forecast_pool(asks, PoolChange(add=(node("b", 4, "L40S"),)), NOW, DAY).queue.start_now == 0
    )
    assert (
        forecast_pool(asks, PoolChange(add=(node("b", 4, "H200"),)), NOW, DAY).queue.start_now == 1
    )


def test_what_runs_on_a_removed_node_waits_again_and_is_counted() -> None:
    two = pool([node("a", 1), node("b", 1)], [runs("r0", 0, 50), runs("r1", 1, 20)])
    found = forecast_pool(two, PoolChange(remove=("a",)), NOW, DAY)
    assert (found.nodes, found.cards, found.moved) == (1, 1, 1)
    assert (found.queue.waiting, found.queue.start_later, found.queue.waits.p50) == (1, 1, 20)


def test_jobs_without_a_known_end_never_end_and_are_counted() -> None:
    stuck = pool([node("a", 1)], [runs("r", 0, None)], waits("w", seconds=None))
    found = forecast_pool(stuck, PoolChange(), NOW, DAY)
    assert (found.no_end, found.queue.start_now + found.queue.start_later) == (2, 0)
    assert found.queue.waits.p50 is None


def test_a_higher_quota_lets_its_tenant_in() -> None:
    held = pool(
        [node("a", 4)], [runs("r", 0, 500)], waits("w0", "w1"), quota=Quota(1000, 0, None, None)
    )
    assert forecast_pool(held, PoolChange(), NOW, DAY).queue.start_now == 0
    assert (
        forecast_pool(held, PoolChange(nominal_milli={"nlp": 2000}), NOW, DAY).queue.start_now == 1
    )
    assert (
        forecast_pool(held, PoolChange(nominal_milli={"nlp": 4000}), NOW, DAY).queue.start_now == 2
    )


def test_another_policy_leaves_other_room() -> None:
    empty = pool([node("a", 4), node("b", 4)], [], waits("w0", "w1"))
    assert forecast_pool(empty, PoolChange(policy="binpack"), NOW, DAY).whole_nodes == 1
    assert forecast_pool(empty, PoolChange(policy="spread"), NOW, DAY).whole_nodes == 0


def test_a_long_queue_is_played_whole_though_a_snapshot_names_its_heads_alone() -> None:
    long = pool([node("a", 2)], [], waits("w0", "w1", count=500))
    found = forecast_pool(long, PoolChange(), NOW, DAY)
    assert (found.queue.waiting, found.queue.start_now, found.queue.start_later) == (500, 2, 498)
    assert found.horizon_ns <= DAY


def test_a_horizon_leaves_later_starts_unknown() -> None:
    found = forecast_pool(FULL, PoolChange(), NOW, 60 * NS)
    assert (found.queue.start_later, found.queue.waits.p95, found.horizon_ns) == (1, None, 60 * NS)


def test_numbers_are_told_by_tenant() -> None:
    found = forecast_pool(FULL, PoolChange(), NOW, DAY)
    assert (found.tenants["nlp"].waiting, found.tenants["cv"].waiting) == (3, 0)


def test_asking_changes_nothing() -> None:
    before = FULL.cards.free_milli.copy()
    first = forecast_pool(FULL, PoolChange(add=(node("b", 1),)), NOW, DAY)
    assert first == forecast_pool(FULL, PoolChange(add=(node("b", 1),)), NOW, DAY)
    assert (FULL.cards.free_milli == before).all()


def test_columns_stay_true_when_nodes_go_and_come() -> None:
    cards = build_card_table([node("a", 2), node("b", 1, "T4"), node("c", 3)])
    rack = TopologyLevel("rack", ("r1", "r2"), np.array([0, 0, 1]))
    tenants = {"nlp": TenantView(UNLIMITED, ResourceAmount(1000, SIZE))}
    begin = Snapshot(1, replace(cards, levels=(rack,)), tenants, (), running=(runs("r", 5, None),))
    after = alter_pool(begin, [node("d", 1, "L40S")], ["a"]).snapshot
    assert after.cards.nodes == ("b", "c", "d")
    assert [after.cards.models[model] for model in after.cards.model] == [
        "T4",
        "H200",
        "H200",
        "H200",
        "L40S",
    ]
    assert after.cards.node.tolist() == [0, 1, 1, 1, 2]
    assert after.cards.uuids == ("b:0", "c:0", "c:1", "c:2", "d:0")
    assert after.running[0].rows == (3,)
    assert after.cards.levels[0].of_node.tolist() == [0, 1, -1]


def test_one_sharing_for_every_share_changes_what_they_hold() -> None:
    half = Shape(500, 8 * GIB)
    loose = Shape(500, 8 * GIB, sharing=SharingKind.BEST_EFFORT)
    fixed = replace(runs("r0", 0, None), milli=(500,), sizes=(8 * GIB,), shape=half)
    idle = replace(runs("r1", 0, None), milli=(0,), sizes=(8 * GIB,), shape=loose)
    begin = pool([node("a", 1)], [], waits("w0", shape=half), waits("w1", shape=loose), waits("w2"))
    cards = begin.cards
    cards.free_milli[0] = 500
    cards.free_bytes[0] -= 16 * GIB
    held = {**begin.tenants, "nlp": TenantView(UNLIMITED, ResourceAmount(500, 16 * GIB))}
    begin = replace(begin, running=(fixed, idle), tenants=held)

    as_it_is = forecast_pool(begin, PoolChange(), NOW, DAY)
    assert (as_it_is.queue.start_now, as_it_is.allocation_now_pct) == (2, 100)
    assert (as_it_is.sharing_changed, as_it_is.policy) == (0, "binpack")

    burst = forecast_pool(begin, PoolChange(sharing=SharingKind.BURST), NOW, DAY)
    # r1 is promised its half, so neither w0 nor w1 has room; w2 wants the whole card.
    assert (burst.queue.start_now, burst.allocation_now_pct) == (0, 100)
    assert burst.stranded_bytes == SIZE - 16 * GIB
    assert (burst.sharing_changed, burst.sharing_unchanged) == (4, 0)

    loose_all = forecast_pool(begin, PoolChange(sharing=SharingKind.BEST_EFFORT), NOW, DAY)
    assert (loose_all.queue.start_now, loose_all.allocation_now_pct) == (2, 0)
    assert (loose_all.sharing_changed, loose_all.stranded_bytes) == (2, 0)
    assert begin.cards.free_milli[0] == 500


def test_a_running_share_keeps_its_sharing_where_no_compute_is_left() -> None:
    loose = Shape(800, 8 * GIB, sharing=SharingKind.BEST_EFFORT)
    first, second = (
        replace(runs(name, 0, None), milli=(0,), sizes=(8 * GIB,), shape=loose)
        for name in ("r0", "r1")
    )
    begin = pool([node("a", 1)], [])
    begin.cards.free_bytes[0] -= 16 * GIB
    held = {**begin.tenants, "nlp": TenantView(UNLIMITED, ResourceAmount(0, 16 * GIB))}
    begin = replace(begin, running=(second, first), tenants=held)
    found = forecast_pool(begin, PoolChange(sharing=SharingKind.FIXED), NOW, DAY)
    assert (found.sharing_changed, found.sharing_unchanged) == (1, 1)
    assert found.allocation_now_pct == 80


def test_two_classes_that_become_one_keep_their_order() -> None:
    burst = Shape(600, 8 * GIB, sharing=SharingKind.BURST)
    young = replace(waits("y", shape=Shape(600, 8 * GIB)), oldest_ns=950 * NS)
    begin = pool([node("a", 1)], [], young, waits("o", shape=burst))
    found = forecast_pool(begin, PoolChange(sharing=SharingKind.BURST), NOW, DAY)
    # `o` has waited 100 s and starts at once, `y` 50 s and starts when `o` ends after 60 s.
    assert (found.queue.waits.p50, found.queue.waits.p95) == (100, 110)
