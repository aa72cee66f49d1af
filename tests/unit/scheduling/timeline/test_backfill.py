import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_columns import (
    SeatAmounts,
)
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.timeline.backfill import (
    Backfill,
)
from gpupool.scheduling.timeline.earliest_start import (
    StartTrial,
    find_earliest_start,
)
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END
from gpupool.scheduling.timeline.timeline import NEVER, Timeline
from tests.support.scheduling_builders import cards, whole
from tests.support.start_builders import attempt, backfill, busy
from tests.support.time_builders import running, used_by


def test_a_head_that_has_a_known_start_elsewhere_is_not_tried_where_nobody_knows() -> None:
    pool, jobs = busy("2x1xT4", 10, None)
    work, tried = backfill(pool, jobs), list[int]()

    def place(at: int) -> SeatAmounts | None:
        tried.append(at)
        return attempt(work.free, whole()).attempt(at)

    other = attempt(work.free, whole())
    parts = [(ClaimFit(whole(), work.free), 1)]
    assert (
        work.promise_start(parts, 5, StartTrial(place, lambda at: at >= UNKNOWN_END), unless=other)
        is None
    )
    assert tried == []


def fitting(work: Backfill, shape: Shape, seconds: int | None) -> list[int]:
    """Cards that the shape may have now for so long."""
    work.hide_holds_for(work.timeline.compute_end(seconds))
    return np.flatnonzero(ClaimFit(shape, work.free).why == FITS).tolist()


def test_behind_a_promise_only_what_ends_before_it_or_leaves_room_may_start() -> None:
    pool, jobs = busy("1x2xT4", 100)
    work = backfill(pool, jobs)
    head = work.promise_start(
        [(ClaimFit(whole(2), work.free), 1)], 50, attempt(work.free, whole(2))
    )
    assert head is not None
    assert head.hold is not None
    assert (head.hold.start_ns, head.hold.end_ns) == (100 * SECOND, 150 * SECOND)
    assert fitting(work, whole(), 100) == [1]
    assert fitting(work, whole(), 101) == fitting(work, whole(), None) == []


def test_cards_that_have_room_for_both_are_shared_with_the_head() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    jobs = [running("a", pool, "node-1/0", ends=100)]
    work = backfill(pool, jobs)
    want = Shape(600, 4 * GIB, 2)
    work.promise_start([(ClaimFit(want, work.free), 1)], 50, attempt(work.free, want))
    assert fitting(work, Shape(400, 4 * GIB), None) == [1]
    assert fitting(work, Shape(401, 4 * GIB), None) == []
    assert fitting(work, Shape(400, 12 * GIB), None) == []


def test_what_is_placed_behind_a_promise_counts_for_what_comes_after_it() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    work = backfill(pool, [running("a", pool, "node-1/0", ends=100)])
    want = Shape(600, 4 * GIB, 2)
    work.promise_start([(ClaimFit(want, work.free), 1)], 50, attempt(work.free, want))
    work.hide_holds_for(NEVER)
    row = np.array([1])
    work.free.take_seats(0, row, 300, np.array([GIB]))
    work.add_taken(SeatAmounts(row, np.array([300]), np.array([GIB])), NEVER)
    assert fitting(work, Shape(100, GIB), None) == [1]
    assert fitting(work, Shape(101, GIB), None) == []
    assert fitting(work, Shape(700, GIB), 100) == [1]


def test_a_head_whose_start_nobody_can_tell_collects_what_is_given_back() -> None:
    pool, jobs = busy("1x2xT4", None)
    work = backfill(pool, jobs)
    head = work.promise_start(
        [(ClaimFit(whole(2), work.free), 1)], 50, attempt(work.free, whole(2))
    )
    assert head is not None
    assert head.hold is not None
    assert (head.hold.start_ns, head.hold.end_ns) == (0, NEVER)
    assert fitting(work, whole(), 1) == []


def test_of_jobs_of_unknown_end_those_that_run_longest_are_expected_first() -> None:
    pool = cards("2x1xT4", used=used_by("node-1/0", "node-2/0"))
    jobs = [
        running("new", pool, "node-1/0", started=-10),
        running("old", pool, "node-2/0", started=-20),
    ]
    head = (work := backfill(pool, jobs)).promise_start(
        [(ClaimFit(whole(), work.free), 1)], 50, attempt(work.free, whole())
    )
    assert head is not None
    assert head.taken.rows.tolist() == [1]


def test_a_head_that_could_never_start_holds_nothing() -> None:
    pool, jobs = busy("1x2xT4", 100, 100)
    work = backfill(pool, jobs)
    assert (
        work.promise_start([(ClaimFit(whole(3), work.free), 1)], 50, attempt(work.free, whole(3)))
        is None
    )
    assert not work.timeline.held.any()
    assert work.is_due([(ClaimFit(whole(), work.free), 1)])


def test_everything_is_shown_again_when_the_screen_is_lifted() -> None:
    pool, jobs = busy("1x2xT4", 100)
    work = backfill(pool, jobs)
    work.promise_start([(ClaimFit(whole(2), work.free), 1)], None, attempt(work.free, whole(2)))
    assert fitting(work, whole(), None) == []
    work.restore_holds()
    assert work.free.milli.tolist() == pool.free_milli.tolist()


def test_only_so_many_heads_are_promised_a_start_on_the_same_cards() -> None:
    pool, jobs = busy("1x2xT4+1x1xL40S", 100, 100, 100)
    work = backfill(pool, jobs)
    on_t4, on_l40s, anywhere = (
        ClaimFit(Shape(WHOLE, None, 1, model), work.free) for model in ("T4", "L40S", None)
    )
    work.promise_start([(on_t4, 1)], 50, attempt(work.free, on_t4.shape))
    assert not work.is_due([(on_t4, 1)])
    assert work.is_due([(on_t4, 1)], depth=2)
    assert work.is_due([(on_l40s, 1)])
    assert not work.is_due([(anywhere, 1)])


def test_who_asks_for_cards_of_one_kind_has_no_others_moved_to_find_a_start() -> None:
    used = used_by("node-1/0") | used_by("node-2/0", "node-3/0", model="L40S")
    pool = cards("1x1xT4+2x1xL40S", used=used)
    jobs = [running(f"r{row}", pool, name, ends=10 - row) for row, name in enumerate(pool.uuids)]
    free, want = FreeCapacity(pool), Shape(WHOLE, model="T4")
    seen = free.get_cursor()
    found = find_earliest_start(
        Timeline(pool, jobs, 0), free, [(ClaimFit(want, free), 1)], 60, attempt(free, want)
    )
    assert found is not None
    assert found[0] == 10 * SECOND
    assert set(free.list_changed_nodes(seen).tolist()) == {0}
