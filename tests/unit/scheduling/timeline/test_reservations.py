from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_columns import get_free_columns
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from gpupool.scheduling.timeline.reservations import (
    compute_horizon,
    hold_all,
    iterate_occurrences,
    list_upcoming,
)
from gpupool.scheduling.timeline.timeline import NEVER, Timeline
from tests.support.scheduling_builders import cards, whole
from tests.support.time_builders import HOUR, reserved, running, used_by

DAY = 24 * HOUR


def spans(asked, since: int, until: int) -> list[tuple[int, int]]:
    found = iterate_occurrences(asked, since * SECOND, until * SECOND)
    return [(one.start_ns // SECOND, one.end_ns // SECOND) for one in found]


def test_what_comes_once_is_seen_until_it_is_over() -> None:
    once = reserved("demo", 100, 200)
    assert spans(once, 0, 1000) == spans(once, 199, 1000) == [(100, 200)]
    assert spans(once, 200, 1000) == spans(once, 0, 100) == []


def test_what_comes_again_does_so_as_long_each_time_and_not_after_its_last_time() -> None:
    daily = reserved("class", 8 * HOUR, 10 * HOUR, every=DAY, until=3 * DAY)
    starts = [8 * HOUR, DAY + 8 * HOUR, 2 * DAY + 8 * HOUR]
    assert spans(daily, 0, 100 * DAY) == [(start, start + 2 * HOUR) for start in starts]
    assert spans(daily, DAY + 9 * HOUR, 100 * DAY) == [
        (start, start + 2 * HOUR) for start in starts[1:]
    ]
    assert spans(daily, DAY + 10 * HOUR, 2 * DAY) == []


def test_what_comes_for_ever_is_expanded_far_from_its_beginning_without_walking_there() -> None:
    weekly = reserved("weekly", 0, HOUR, every=7 * DAY)
    far = 10_000 * 7 * DAY
    assert spans(weekly, far + HOUR, far + 15 * DAY) == [
        (far + 7 * DAY, far + 7 * DAY + HOUR),
        (far + 14 * DAY, far + 14 * DAY + HOUR),
    ]


def test_a_reservation_without_end_holds_for_ever() -> None:
    assert [
        one.end_ns for one in iterate_occurrences(reserved("mine", 5, None), 10**18, NEVER)
    ] == [NEVER]


def test_at_most_sixty_four_occurrences_of_one_reservation_are_looked_at() -> None:
    assert len(list_upcoming(reserved("often", 0, 1, every=2), 0, 10**6 * SECOND)) == 64


def test_the_horizon_is_the_next_of_each_and_one_period_more() -> None:
    daily, once = reserved("class", 100, 200, every=DAY), reserved("demo", 3 * DAY, 3 * DAY + 5)
    assert compute_horizon([daily, once], 0) == (4 * DAY) * SECOND + 1
    assert compute_horizon([], 7) == 8


def spare(
    pool: CardTable, reservations, jobs, now: int, until: int | None, owner: str = ""
) -> list[int]:
    timeline, free = Timeline(pool, jobs, now * SECOND), FreeCapacity(pool)
    hold_all(timeline, free, reservations, jobs)
    at = NEVER if until is None else until * SECOND
    return timeline.subtract_holds(get_free_columns(free), at, owner).milli.tolist()


def test_others_may_use_its_cards_before_it_starts_if_they_end_in_time() -> None:
    demo = reserved("demo", 100, 200, want=whole(2))
    pool = cards("1x2xT4")
    assert spare(pool, [demo], [], 0, 100) == [WHOLE, WHOLE]
    assert spare(pool, [demo], [], 0, 101) == [0, 0]
    assert spare(pool, [demo], [], 200, None) == [WHOLE, WHOLE]


def test_its_tenant_may_use_it_by_name_and_nobody_else_by_the_same_name() -> None:
    demo = reserved("demo", 0, 200, want=whole(2))
    pool = cards("1x2xT4")
    assert spare(pool, [demo], [], 10, None, "nlp/demo") == [WHOLE, WHOLE]
    assert spare(pool, [demo], [], 10, None, "vision/demo") == [0, 0]


def test_it_takes_cards_that_are_free_in_time_rather_than_those_of_a_job_of_unknown_end() -> None:
    pool = cards("2x1xT4", used=used_by("node-1/0", "node-2/0"))
    jobs = [running("a", pool, "node-1/0", ends=None), running("b", pool, "node-2/0", ends=50)]
    timeline, free = Timeline(pool, jobs, 0), FreeCapacity(pool)
    hold_all(timeline, free, [reserved("demo", 100, 200)], jobs)
    (held,) = timeline.holds
    assert held.taken.rows.tolist() == [1]


def test_the_same_cards_are_held_for_every_occurrence_where_that_can_be() -> None:
    pool = cards("3x1xT4")
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    hold_all(timeline, free, [reserved("class", 100, 200, every=300)], ())
    assert len(timeline.holds) >= 2
    assert len({hold.taken.rows.tolist()[0] for hold in timeline.holds}) == 1


def test_two_reservations_at_the_same_time_have_different_cards() -> None:
    pool = cards("2x1xT4")
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    hold_all(timeline, free, [reserved("a", 100, 200), reserved("b", 150, 300)], ())
    assert sorted(hold.taken.rows.tolist()[0] for hold in timeline.holds) == [0, 1]


def test_while_it_runs_its_own_jobs_seats_are_part_of_what_it_holds() -> None:
    pool = cards("2x2xT4", used=used_by("node-2/0"))
    jobs = [running("a", pool, "node-2/0", ends=150, reservation="demo")]
    demo = reserved("demo", 0, 200, want=whole(2))
    assert spare(pool, [demo], jobs, 10, None) == [WHOLE, WHOLE, 0, 0]
    assert spare(pool, [demo], jobs, 10, None, "nlp/demo") == [WHOLE, WHOLE, 0, WHOLE]


def test_where_a_job_is_late_what_comes_back_on_its_card_is_kept() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    jobs = [running("late", pool, "node-1/0", ends=90)]
    demo = reserved("demo", 100, 300, want=whole(2))
    assert spare(pool, [demo], jobs, 110, None) == [-WHOLE, 0]


def test_shares_of_cards_are_reserved_as_whole_cards_are() -> None:
    pool = cards("1x1xT4")
    asked = reserved("demo", 0, 100, want=Shape(300, 2 * GIB), replicas=2)
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    hold_all(timeline, free, [asked], ())
    left = timeline.subtract_holds(get_free_columns(free), NEVER)
    assert (left.milli.tolist(), left.sizes.tolist()) == ([400], [11 * GIB])


def test_a_card_that_is_not_healthy_is_not_held_and_another_is() -> None:
    pool = cards("2x1xT4", status={"node-1/0": CardStatus.UNHEALTHY})
    timeline, free = Timeline(pool, (), 0), FreeCapacity(pool)
    hold_all(timeline, free, [reserved("demo", 100, 200)], ())
    assert timeline.holds[0].taken.rows.tolist() == [1]
