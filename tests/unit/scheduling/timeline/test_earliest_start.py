import numpy as np
import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_columns import (
    SeatAmounts,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.timeline.earliest_start import (
    StartTrial,
    find_earliest_start,
)
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END
from gpupool.scheduling.timeline.timeline import Timeline
from tests.support.scheduling_builders import cards, whole
from tests.support.start_builders import attempt, busy, count_looks
from tests.support.time_builders import hold, running


def start_of(
    pool: CardTable,
    jobs: list[RunningJob],
    shape: Shape,
    seconds: int | None,
    claims: int = 1,
    *holds,
) -> int | None:
    free, timeline = FreeCapacity(pool), Timeline(pool, jobs, 0)
    for one in holds:
        timeline.hold(one)
    found = find_earliest_start(
        timeline, free, [(ClaimFit(shape, free), claims)], seconds, attempt(free, shape, claims)
    )
    return None if found is None else found[0] // SECOND


def test_a_claim_starts_when_enough_cards_of_one_node_have_come_back() -> None:
    pool, jobs = busy("2x2xT4", 10, 40, 20, 30)
    assert start_of(pool, jobs, whole(), 5) == 10
    assert start_of(pool, jobs, whole(2), 5) == 30


def test_a_gang_starts_when_enough_cards_of_all_nodes_have_come_back() -> None:
    pool, jobs = busy("2x2xT4", 10, 40, 20, 30)
    assert start_of(pool, jobs, whole(), 5, 3) == 30
    assert start_of(pool, jobs, whole(), 5, 4) == 40


def test_a_share_starts_when_there_is_compute_and_memory_for_it_on_one_card() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (900, 12 * GIB)})
    jobs = [
        running("a", pool, "node-1/0", ends=10, milli=600, size=2 * GIB),
        running("b", pool, "node-1/0", ends=20, milli=300, size=10 * GIB),
    ]
    assert start_of(pool, jobs, Shape(500, 4 * GIB), 5) == 10
    assert start_of(pool, jobs, Shape(500, 8 * GIB), 5) == 20


def test_what_is_not_known_to_end_brings_no_start() -> None:
    pool, jobs = busy("1x2xT4", 10, None)
    assert start_of(pool, jobs, whole(), 5) == 10
    assert start_of(pool, jobs, whole(2), 5) == UNKNOWN_END // SECOND
    assert start_of(pool, jobs, whole(3), 5) is None


def test_a_run_that_would_meet_a_hold_starts_after_it_and_a_short_one_before_it() -> None:
    pool, jobs = busy("1x1xT4", 10)
    later = hold(WHOLE, 15 * GIB, 0, start=100, end=200)
    assert start_of(pool, jobs, whole(), 90, 1, later) == 10
    assert start_of(pool, jobs, whole(), 91, 1, later) == 200
    assert start_of(pool, jobs, whole(), None, 1, later) == 200


def test_a_gap_between_two_holds_is_used_by_what_fits_into_it() -> None:
    pool, jobs = busy("1x1xT4", 10)
    holds = (
        hold(WHOLE, 15 * GIB, 0, start=20, end=50),
        hold(WHOLE, 15 * GIB, 0, start=100, end=150),
    )
    assert [start_of(pool, jobs, whole(), s, 1, *holds) for s in (10, 11, 50, 51)] == [
        10,
        50,
        50,
        150,
    ]


def test_the_search_leaves_the_working_copy_as_it_was() -> None:
    pool, jobs = busy("2x2xT4", 10, 40, 20, 30)
    free, timeline = FreeCapacity(pool), Timeline(pool, jobs, 0)
    find_earliest_start(timeline, free, [(ClaimFit(whole(2), free), 1)], 5, attempt(free, whole(2)))
    assert free.milli.tolist() == pool.free_milli.tolist()
    assert free.size.tolist() == pool.free_bytes.tolist()


def test_where_counting_seats_is_not_enough_the_head_is_tried_at_later_instants() -> None:
    pool, jobs = busy("2x1xT4", 10, 20)
    free, timeline = FreeCapacity(pool), Timeline(pool, jobs, 0)

    def only_on_the_second_node(at: int) -> SeatAmounts | None:
        found = attempt(free, whole()).attempt(at)
        row = np.array([1])
        return found and (SeatAmounts(row, row, row) if free.milli[1] == WHOLE else None)

    found = find_earliest_start(
        timeline, free, [(ClaimFit(whole(), free), 1)], 5, StartTrial(only_on_the_second_node)
    )
    assert found is not None
    assert found[0] == 20 * SECOND


def test_each_instant_is_tried_once_and_only_where_the_head_may_start_at_it() -> None:
    pool, jobs = busy("4x1xT4", 10, 20, 30, 40)
    free, timeline, tried = FreeCapacity(pool), Timeline(pool, jobs, 0), list[int]()

    def last_two(at: int) -> SeatAmounts | None:
        tried.append(at // SECOND)
        return attempt(free, whole()).attempt(at) if at >= 30 * SECOND else None

    def found(may: int) -> int | None:
        start = find_earliest_start(
            timeline,
            free,
            [(ClaimFit(whole(), free), 1)],
            5,
            StartTrial(last_two, lambda at: at >= may * SECOND),
        )
        return start and start[0] // SECOND

    assert (found(0), sorted(tried)) == (30, [10, 20, 30, 40])
    tried.clear()
    assert (found(25), tried) == (30, [30])
    tried.clear()
    assert (found(50), tried) == (None, [])


def test_no_seat_is_counted_where_the_head_may_start_at_no_instant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, jobs = busy("4x1xT4", 10, 20, 30, 40)
    free, counted = FreeCapacity(pool), count_looks(monkeypatch)
    never = StartTrial(attempt(free, whole()).attempt, lambda _at: False)
    assert (
        find_earliest_start(Timeline(pool, jobs, 0), free, [(ClaimFit(whole(), free), 1)], 5, never)
        is None
    )
    assert counted == []
