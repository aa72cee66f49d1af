import numpy as np
import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling import backfill as backfill_module
from gpupool.scheduling.backfill import Backfill, Trial, earliest
from gpupool.scheduling.columns import Columns, Taken, free_columns
from gpupool.scheduling.ends import SECOND, UNTOLD
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.seating import pick
from gpupool.scheduling.snapshot import Cards, Ints, Running
from gpupool.scheduling.timeline import NEVER, Timeline
from tests.support.scheduling_builders import cards, whole
from tests.support.time_builders import hold, running, used_by


def attempt(free: Free, shape: Shape, claims: int = 1) -> Trial:
    """The first cards that fit now, for all of the claims or for none."""

    def place(_at: int) -> Taken | None:
        fit = Fit(shape, free)
        found = pick(fit, free, free_columns(free), claims)
        return found if int(found.counts.sum()) == claims * shape.count else None

    return Trial(place)


def start_of(
    pool: Cards, jobs: list[Running], shape: Shape, seconds: int | None, claims: int = 1, *holds
) -> int | None:
    free, timeline = Free(pool), Timeline(pool, jobs, 0)
    for one in holds:
        timeline.hold(one)
    found = earliest(timeline, free, [(Fit(shape, free), claims)], seconds, attempt(free, shape, claims))
    return None if found is None else found[0] // SECOND


def busy(pool: str, *ends: int | None) -> tuple[Cards, list[Running]]:
    """Cards that are taken whole, one job each, by the ends of these jobs."""
    names = cards(pool).uuids
    full = cards(pool, used=used_by(*names[: len(ends)]))
    return full, [running(f"j{i}", full, names[i], ends=end) for i, end in enumerate(ends)]


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
    assert start_of(pool, jobs, whole(2), 5) == UNTOLD // SECOND
    assert start_of(pool, jobs, whole(3), 5) is None


def test_a_run_that_would_meet_a_hold_starts_after_it_and_a_short_one_before_it() -> None:
    pool, jobs = busy("1x1xT4", 10)
    later = hold(WHOLE, 15 * GIB, 0, start=100, end=200)
    assert start_of(pool, jobs, whole(), 90, 1, later) == 10
    assert start_of(pool, jobs, whole(), 91, 1, later) == 200
    assert start_of(pool, jobs, whole(), None, 1, later) == 200


def test_a_gap_between_two_holds_is_used_by_what_fits_into_it() -> None:
    pool, jobs = busy("1x1xT4", 10)
    holds = (hold(WHOLE, 15 * GIB, 0, start=20, end=50), hold(WHOLE, 15 * GIB, 0, start=100, end=150))
    assert [start_of(pool, jobs, whole(), s, 1, *holds) for s in (10, 11, 50, 51)] == [10, 50, 50, 150]


def test_the_search_leaves_the_working_copy_as_it_was() -> None:
    pool, jobs = busy("2x2xT4", 10, 40, 20, 30)
    free, timeline = Free(pool), Timeline(pool, jobs, 0)
    earliest(timeline, free, [(Fit(whole(2), free), 1)], 5, attempt(free, whole(2)))
    assert free.milli.tolist() == pool.free_milli.tolist()
    assert free.size.tolist() == pool.free_bytes.tolist()


def test_where_counting_seats_is_not_enough_the_head_is_tried_at_later_instants() -> None:
    pool, jobs = busy("2x1xT4", 10, 20)
    free, timeline = Free(pool), Timeline(pool, jobs, 0)

    def only_on_the_second_node(at: int) -> Taken | None:
        found = attempt(free, whole()).attempt(at)
        row = np.array([1])
        return found and (Taken(row, row, row) if free.milli[1] == WHOLE else None)

    found = earliest(timeline, free, [(Fit(whole(), free), 1)], 5, Trial(only_on_the_second_node))
    assert found is not None
    assert found[0] == 20 * SECOND


def test_each_instant_is_tried_once_and_only_where_the_head_may_start_at_it() -> None:
    pool, jobs = busy("4x1xT4", 10, 20, 30, 40)
    free, timeline, tried = Free(pool), Timeline(pool, jobs, 0), list[int]()

    def last_two(at: int) -> Taken | None:
        tried.append(at // SECOND)
        return attempt(free, whole()).attempt(at) if at >= 30 * SECOND else None

    def found(may: int) -> int | None:
        start = earliest(timeline, free, [(Fit(whole(), free), 1)], 5, Trial(last_two, lambda at: at >= may * SECOND))
        return start and start[0] // SECOND

    assert (found(0), sorted(tried)) == (30, [10, 20, 30, 40])
    tried.clear()
    assert (found(25), tried) == (30, [30])
    tried.clear()
    assert (found(50), tried) == (None, [])


def test_no_seat_is_counted_where_the_head_may_start_at_no_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, jobs = busy("4x1xT4", 10, 20, 30, 40)
    free, counted = Free(pool), count_looks(monkeypatch)
    never = Trial(attempt(free, whole()).attempt, lambda _at: False)
    assert earliest(Timeline(pool, jobs, 0), free, [(Fit(whole(), free), 1)], 5, never) is None
    assert counted == []


def test_heads_alike_that_hold_nothing_share_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, jobs = busy("4x1xT4", None, None, None, None)
    work, tried, counted = backfill(pool, jobs), list[int](), count_looks(monkeypatch)

    def place(at: int) -> Taken | None:
        tried.append(at)
        return attempt(work.free, whole()).attempt(at)

    def head(tenant: str, alike: str | None) -> tuple[int, int]:
        counted.clear()
        tried.clear()
        promise = work.promise([(Fit(whole(), work.free), 1)], 5, Trial(place, alike=alike), lacks=tenant)
        assert promise is not None
        assert promise.at_ns == UNTOLD
        return len(counted), len(tried)

    first = head("nlp", "one")
    assert first[1] == 1
    assert head("web", "one") == (0, 0)
    assert head("ads", None) == first
    none: Ints = np.zeros(0, dtype=np.int64)
    work.took(Taken(none, none, none), 7 * SECOND)  # one more instant
    assert head("maps", "one")[1] == 1
    work.free.set(np.array([3]), np.array([100]), np.array([0]))
    assert head("news", "one")[1] == 1


def test_a_head_that_has_a_known_start_elsewhere_is_not_tried_where_nobody_knows() -> None:
    pool, jobs = busy("2x1xT4", 10, None)
    work, tried = backfill(pool, jobs), list[int]()

    def place(at: int) -> Taken | None:
        tried.append(at)
        return attempt(work.free, whole()).attempt(at)

    other = attempt(work.free, whole())
    parts = [(Fit(whole(), work.free), 1)]
    assert work.promise(parts, 5, Trial(place, lambda at: at >= UNTOLD), unless=other) is None
    assert tried == []


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """The shapes whose seats were counted, each time."""
    counted, most = list[Shape](), backfill_module.most

    def look(fit: Fit, free: Free, columns: Columns) -> Ints:
        counted.append(fit.shape)
        return most(fit, free, columns)

    monkeypatch.setattr(backfill_module, "most", look)
    return counted


def backfill(pool: Cards, jobs: list[Running]) -> Backfill:
    return Backfill(Free(pool), Timeline(pool, jobs, 0))


def fitting(work: Backfill, shape: Shape, seconds: int | None) -> list[int]:
    """Cards that the shape may have now for so long."""
    work.show(work.timeline.until(seconds))
    return np.flatnonzero(Fit(shape, work.free).why == FITS).tolist()


def test_behind_a_promise_only_what_ends_before_it_or_leaves_room_may_start() -> None:
    pool, jobs = busy("1x2xT4", 100)
    work = backfill(pool, jobs)
    head = work.promise([(Fit(whole(2), work.free), 1)], 50, attempt(work.free, whole(2)))
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
    work.promise([(Fit(want, work.free), 1)], 50, attempt(work.free, want))
    assert fitting(work, Shape(400, 4 * GIB), None) == [1]
    assert fitting(work, Shape(401, 4 * GIB), None) == []
    assert fitting(work, Shape(400, 12 * GIB), None) == []


def test_what_is_placed_behind_a_promise_counts_for_what_comes_after_it() -> None:
    pool = cards("1x2xT4", used=used_by("node-1/0"))
    work = backfill(pool, [running("a", pool, "node-1/0", ends=100)])
    want = Shape(600, 4 * GIB, 2)
    work.promise([(Fit(want, work.free), 1)], 50, attempt(work.free, want))
    work.show(NEVER)
    row = np.array([1])
    work.free.take(0, row, 300, np.array([GIB]))
    work.took(Taken(row, np.array([300]), np.array([GIB])), NEVER)
    assert fitting(work, Shape(100, GIB), None) == [1]
    assert fitting(work, Shape(101, GIB), None) == []
    assert fitting(work, Shape(700, GIB), 100) == [1]


def test_a_head_whose_start_nobody_can_tell_collects_what_is_given_back() -> None:
    pool, jobs = busy("1x2xT4", None)
    work = backfill(pool, jobs)
    head = work.promise([(Fit(whole(2), work.free), 1)], 50, attempt(work.free, whole(2)))
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
    head = (work := backfill(pool, jobs)).promise([(Fit(whole(), work.free), 1)], 50, attempt(work.free, whole()))
    assert head is not None
    assert head.taken.rows.tolist() == [1]


def test_a_head_that_could_never_start_holds_nothing() -> None:
    pool, jobs = busy("1x2xT4", 100, 100)
    work = backfill(pool, jobs)
    assert work.promise([(Fit(whole(3), work.free), 1)], 50, attempt(work.free, whole(3))) is None
    assert not work.timeline.held.any()
    assert work.due([(Fit(whole(), work.free), 1)])


def test_everything_is_shown_again_when_the_screen_is_lifted() -> None:
    pool, jobs = busy("1x2xT4", 100)
    work = backfill(pool, jobs)
    work.promise([(Fit(whole(2), work.free), 1)], None, attempt(work.free, whole(2)))
    assert fitting(work, whole(), None) == []
    work.lift()
    assert work.free.milli.tolist() == pool.free_milli.tolist()


def test_only_so_many_heads_are_promised_a_start_on_the_same_cards() -> None:
    pool, jobs = busy("1x2xT4+1x1xL40S", 100, 100, 100)
    work = backfill(pool, jobs)
    on_t4, on_l40s, anywhere = (Fit(Shape(WHOLE, None, 1, model), work.free) for model in ("T4", "L40S", None))
    work.promise([(on_t4, 1)], 50, attempt(work.free, on_t4.shape))
    assert not work.due([(on_t4, 1)])
    assert work.due([(on_t4, 1)], depth=2)
    assert work.due([(on_l40s, 1)])
    assert not work.due([(anywhere, 1)])


def test_who_asks_for_cards_of_one_kind_has_no_others_moved_to_find_a_start() -> None:
    used = used_by("node-1/0") | used_by("node-2/0", "node-3/0", model="L40S")
    pool = cards("1x1xT4+2x1xL40S", used=used)
    jobs = [running(f"r{row}", pool, name, ends=10 - row) for row, name in enumerate(pool.uuids)]
    free, want = Free(pool), Shape(WHOLE, model="T4")
    seen = free.now()
    found = earliest(Timeline(pool, jobs, 0), free, [(Fit(want, free), 1)], 60, attempt(free, want))
    assert found is not None
    assert found[0] == 10 * SECOND
    assert set(free.changed(seen).tolist()) == {0}
