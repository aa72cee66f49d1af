from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.scheduling.filtering.capacity_columns import get_free_columns
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END
from gpupool.scheduling.timeline.timeline import NEVER, Hold, JobFilter, Timeline
from tests.support.scheduling_builders import MODELS, cards
from tests.support.time_builders import hold, running, taken, used_by

T4 = MODELS["T4"]


def spare_milli(
    timeline: Timeline, free: FreeCapacity, until: int | None, owner: str = ""
) -> list[int]:
    at = NEVER if until is None else until * SECOND
    return timeline.subtract_holds(get_free_columns(free), at, owner).milli.tolist()


def test_without_holds_what_is_spare_is_what_is_free_now_and_no_copy_of_it() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    timeline, columns = (
        Timeline(pool, [running("a", pool, "node-1/0", ends=50)], 0),
        get_free_columns(FreeCapacity(pool)),
    )
    assert timeline.subtract_holds(columns, NEVER) is columns


def test_a_hold_takes_from_those_whose_run_meets_it_and_from_nobody_else() -> None:
    pool = cards("1x2xT4")
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    timeline.hold(hold(600, GIB, 1, start=100, end=200))
    assert spare_milli(timeline, free, 100) == [1000, 1000]
    assert spare_milli(timeline, free, 101) == [1000, 400]
    assert spare_milli(timeline, free, None) == [1000, 400]
    assert timeline.subtract_holds(get_free_columns(free), NEVER).sizes.tolist() == [T4, T4 - GIB]


def test_what_a_job_gives_back_before_the_hold_begins_serves_the_hold() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (500, GIB)})
    timeline, free = (
        Timeline(pool, [running("a", pool, "node-1/0", ends=100, milli=500, size=GIB)], 0),
        FreeCapacity(pool),
    )
    timeline.hold(hold(500, GIB, 0, start=100, end=200))
    assert spare_milli(timeline, free, None) == [500]


def test_a_job_of_unknown_end_gives_nothing_back() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (500, GIB)})
    timeline, free = (
        Timeline(pool, [running("a", pool, "node-1/0", ends=None, milli=500, size=GIB)], 0),
        FreeCapacity(pool),
    )
    timeline.hold(hold(500, GIB, 0, start=100, end=200))
    assert spare_milli(timeline, free, None) == [0]
    assert timeline.list_instants().tolist() == [200 * SECOND, UNKNOWN_END]


def test_the_owner_of_a_hold_sees_past_it_and_not_past_those_of_others() -> None:
    pool = cards("1x1xT4")
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    timeline.hold(hold(600, GIB, 0, start=0, end=50, owner="nlp/demo"))
    timeline.hold(hold(300, GIB, 0, start=60, end=90, owner="vision/class"))
    assert spare_milli(timeline, free, 50) == [400]
    assert spare_milli(timeline, free, 50, "nlp/demo") == [1000]
    assert spare_milli(timeline, free, 61, "nlp/demo") == [700]


def test_two_holds_that_follow_each_other_are_not_added_up() -> None:
    pool = cards("1x1xT4")
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    timeline.hold(hold(600, GIB, 0, start=10, end=20))
    timeline.hold(hold(600, GIB, 0, start=20, end=30))
    assert spare_milli(timeline, free, None) == [400]


def test_a_hold_that_has_begun_counts_from_now_on() -> None:
    pool = cards("1x1xT4")
    timeline, free = Timeline(pool, (), 15 * SECOND), FreeCapacity(pool)
    timeline.hold(hold(600, GIB, 0, start=10, end=20))
    assert spare_milli(timeline, free, 16) == [400]


def test_a_job_that_should_have_ended_is_expected_to_be_late_as_long_again_and_never_in_the_past() -> (
    None
):
    pool = cards("1x1xT4", used=used_by("node-1/0"))
    late = Timeline(pool, [running("a", pool, "node-1/0", ends=100)], 400 * SECOND)
    assert late.list_instants().tolist() == [700 * SECOND]


def test_what_was_just_placed_comes_back_when_it_ends() -> None:
    pool = cards("1x1xT4")
    timeline = Timeline(pool, (), 0)
    timeline.add_end(taken(WHOLE, T4, 0), 40 * SECOND)
    timeline.add_end(taken(WHOLE, T4, 0), NEVER)
    assert timeline.list_instants().tolist() == [40 * SECOND, UNKNOWN_END]
    assert timeline.get_low(40 * SECOND, NEVER).milli.tolist() == [WHOLE]
    assert timeline.get_low(39 * SECOND, NEVER).milli.tolist() == [0]


def test_the_jobs_of_a_reservation_are_left_out_when_it_is_asked_what_they_and_it_have_together() -> (
    None
):
    pool = cards("1x2xT4", used=used_by("node-1/0", "node-1/1"))
    mine = running("a", pool, "node-1/0", ends=50, reservation="demo")
    other = running("b", pool, "node-1/1", ends=60)
    timeline = Timeline(pool, [mine, other], 0)
    timeline.hold(hold(WHOLE, T4, 0, start=0, end=90, owner="nlp/demo"))
    assert timeline.get_low(70 * SECOND, NEVER, "nlp/demo", JobFilter.OTHERS).milli.tolist() == [
        0,
        WHOLE,
    ]
    assert timeline.get_low(70 * SECOND, NEVER, "nlp/demo").milli.tolist() == [WHOLE, WHOLE]
    assert timeline.get_low(70 * SECOND, NEVER, jobs=JobFilter.NONE).milli.tolist() == [-WHOLE, 0]


def test_what_a_job_of_the_reservation_has_of_it_is_not_kept_a_second_time() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (400, GIB)})
    job = running("a", pool, "node-1/0", ends=50, milli=400, size=GIB, reservation="demo")
    timeline, free = Timeline(pool, [job], 0), FreeCapacity(pool)
    timeline.hold(hold(700, 2 * GIB, 0, start=0, end=90, owner="nlp/demo"))
    timeline.add_used_part(Hold(taken(400, GIB, 0), 0, 50 * SECOND, "nlp/demo"))
    assert spare_milli(timeline, free, 10) == [300]
    assert spare_milli(timeline, free, None) == [300]
    assert spare_milli(timeline, free, None, "nlp/demo") == [600]
