"""What jobs that are moved or grow find held for others, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.load_balance import plan_rebalancing
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.timeline import NEVER
from gpupool.scheduling.timeline.unreserved_capacity import (
    NOTHING,
    ReservedAmounts,
    UnreservedCapacity,
)
from tests.support.moving_builders import NOW, job, pool
from tests.support.time_builders import reserved

NOW_S = NOW // SECOND
H200 = Shape(WHOLE, 140 * GIB)


def kept(
    start: int, end: int | None = None, *, want: Shape = H200, replicas: int = 1
) -> Reservation:
    """A reservation of another tenant, from so many seconds from now on."""
    until = None if end is None else NOW_S + end
    return reserved("demo", NOW_S + start, until, want=want, replicas=replicas, tenant="owner")


def spare_of(before: Snapshot) -> UnreservedCapacity:
    return UnreservedCapacity(before, FreeCapacity(before.cards), NOW)


def until(one: RunningJob, seconds: int) -> RunningJob:
    return replace(one, ends_ns=one.started_ns + seconds * SECOND)


def test_where_nothing_is_reserved_or_promised_nothing_is_held() -> None:
    before = pool("1x2xH200", job("a", 0))
    spare = spare_of(before)
    assert spare.measure_reserved() == NOTHING
    assert spare.sum_held_free(before.running[0], np.array([0, 1])) == (0, 0)
    assert spare.find_unheld_cards(
        before.running[0], ClaimFit(H200, FreeCapacity(before.cards))
    ).all()


def test_a_defragmentation_sets_nobody_down_on_reserved_cards() -> None:
    before = pool("2x2xH200", job("a", 0), job("b", 2))
    assert len(plan_defragmentation(before, NOW).moves) == 1
    plan = plan_defragmentation(replace(before, reservations=(kept(0, replicas=2),)), NOW)
    assert plan.moves == ()
    assert plan.reserved == ReservedAmounts(2, 2 * WHOLE, 2 * 140 * GIB)
    assert plan.gain.cards == (0, 0), "what is reserved is not free"


def test_a_node_of_which_a_card_is_reserved_is_not_emptied_for_its_other_cards() -> None:
    before = pool(
        "2x2xH200",
        job("a", 0, ran=1),
        job("b", 2, ran=900, stays=True),
        job("c", 3, ran=900, stays=True),
    )
    room = replace(
        pool("3x2xH200", *before.running, job("d", 4, stays=True)), running=before.running
    )
    assert [move.job for move in plan_defragmentation(room, NOW).moves] == ["a"]
    reserved_beside = replace(room, reservations=(kept(0, want=Shape(WHOLE, 140 * GIB)),))
    (row,) = np.flatnonzero(spare_of(reserved_beside).reserved).tolist()
    assert row in (1, 5), "beside the job that could leave, or where it would go"
    assert plan_defragmentation(reserved_beside, NOW).moves == ()


def test_a_job_that_ends_in_time_may_go_where_a_reservation_begins_later() -> None:
    later = kept(1000, 2000, want=Shape(900, 8 * GIB))
    stuck = [job("stuck", 0, milli=200, stays=True), job("small", 1, milli=100, stays=True)]
    for length, goes in ((300, True), (5000, False), (None, False)):
        jobs = [
            until(one, length) if length else one
            for one in (job(name, 0, milli=300) for name in ("x", "y"))
        ]
        before = replace(pool("1x2xH200", *jobs, *stuck), reservations=(later,))
        assert np.flatnonzero(spare_of(before).reserved).tolist() == [1]
        assert [move.rows for move in plan_rebalancing(before, NOW).moves] == [(1,)] * goes


def test_a_reservations_own_jobs_may_move_onto_its_cards_and_nobody_elses_may() -> None:
    mine = replace(job("mine", 0, milli=300, tenant="owner"), reservation="demo")
    others = [job("other", 0, milli=300, stays=True), job("small", 1, milli=100, stays=True)]
    active = kept(0, want=Shape(900, 139 * GIB))
    before = replace(pool("1x2xH200", mine, *others), reservations=(active,))
    assert np.flatnonzero(spare_of(before).reserved).tolist() == [1]
    assert [move.rows for move in plan_rebalancing(before, NOW).moves] == [(1,)]
    stranger = replace(before, running=(replace(mine, tenant="nlp"), *others))
    assert plan_rebalancing(stranger, NOW).moves == ()


def test_a_promised_start_is_not_put_off_by_a_move() -> None:
    before = pool(
        "1x2xH200",
        job("x", 0, milli=300),
        job("y", 0, milli=300),
        job("z", 1, milli=100, stays=True),
    )
    assert plan_rebalancing(before, NOW).moves
    head = ClassKey("nlp", 0, Shape(900, 8 * GIB), 600)
    start = PlannedStart(NOW + 100 * SECOND, (1,), True, (900,), (8 * GIB,))
    promised = replace(before, previous_starts={head: start})
    assert plan_rebalancing(promised, NOW).moves == ()
    assert plan_rebalancing(promised, NOW).reserved == NOTHING, "a promise is no reservation"


def test_what_is_held_is_said_with_the_numbers_for_whom_and_from_when_on() -> None:
    one = job("a", 0, milli=300)
    before = replace(pool("1x1xH200", one), reservations=(kept(60, want=Shape(500, 8 * GIB)),))
    spare, share = spare_of(before), "0.50 GPU (50 % compute) + 8192 MiB of it is kept for"
    assert spare.describe_hold(one, 0, NEVER) == (
        f"{share} a reservation of another tenant from 1970-01-01T02:47:40Z on, and the job has no known end"
    )
    assert spare.describe_hold(replace(one, tenant="owner"), 0, NOW + 90 * SECOND) == (
        f"{share} reservation demo from 1970-01-01T02:47:40Z on, and the job may run for 1:30"
    )
    assert spare.describe_hold(one, 0, NOW + 30 * SECOND) == ""
    now = spare_of(replace(before, reservations=(kept(0, want=Shape(500, 8 * GIB)),)))
    assert now.describe_hold(one, 0, NEVER) == f"{share} a reservation of another tenant"


def test_a_job_that_is_moved_runs_its_whole_length_again_and_one_that_stays_does_not() -> None:
    before = pool("1x1xH200", until(job("a", 0, ran=60), 100))
    spare, one = spare_of(before), before.running[0]
    assert spare.compute_end_in_place(one) == NOW + 40 * SECOND
    assert spare.compute_end_after_move(one) == NOW + 160 * SECOND, (
        "a minute to leave, then all of it"
    )
    assert (
        spare.compute_end_in_place(job("b", 0))
        == spare.compute_end_after_move(job("b", 0))
        == NEVER
    )
