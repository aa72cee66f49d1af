"""What holds of the time axis, whatever runs, waits and is reserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, ResourceAmount
from gpupool.model.reservation import Reservation
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.capacity_columns import get_free_columns
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.seat_count import count_claims, pick_cards
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.timeline.job_end_times import compute_expected_end, name_owner
from gpupool.scheduling.timeline.reservations import hold_all, iterate_occurrences
from gpupool.scheduling.timeline.running_jobs_index import RunningJobsIndex
from gpupool.scheduling.timeline.timeline import NEVER, JobFilter, Timeline
from gpupool.simulation.replay.promises import PromiseReplay
from gpupool.simulation.replay.world import SimulatedPool
from gpupool.simulation.traces.trace import JobArrival
from tests.properties.test_scheduling import snapshots
from tests.support.properties import whole_pools
from tests.support.quota_builders import member
from tests.support.scheduling_builders import cards
from tests.support.time_builders import reserved, taken

often = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
lives = settings(whole_pools, max_examples=25)
layouts = st.sampled_from(["1x2xT4", "2x2xT4", "1x1xT4+1x2xL40S", "2x1xT4+1x4xT4", "4x1xT4"])
shapes = st.sampled_from(
    [
        Shape(WHOLE),
        Shape(WHOLE),
        Shape(WHOLE, None, 2),
        Shape(400, 4 * GIB),
        Shape(600, 2 * GIB),
        Shape(300, 9 * GIB, 2),
    ]
)


@st.composite
def arrivals(draw: st.DrawFn, limited: bool = True) -> list[JobArrival]:
    """Up to twelve jobs and gangs of one tenant; limits are exact or too long."""
    found = []
    for number in range(draw(st.integers(2, 12))):
        seconds = draw(st.integers(1, 60))
        limit = (
            seconds + draw(st.sampled_from([0, 0, 5, 40]))
            if limited or draw(st.booleans())
            else None
        )
        members, at = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.integers(0, 40))
        name, roles = f"j{number:02}", draw(st.sampled_from([1, 1, 2])) if members > 1 else 1
        gang = name if members > 1 else ""
        for role in range(roles):
            job = name if role == 0 else f"{name}-{role}"
            found.append(
                JobArrival(job, at * NS, draw(shapes), seconds * NS, "nlp", 0, limit, gang, members)
            )
    return sorted(found, key=lambda one: (one.at_ns, one.job))


Views = Mapping[str, TenantView]
NO_QUOTA: Views = {"nlp": TenantView(UNLIMITED, ResourceAmount())}


UNSTOPPED, STOPPED = [(None, None), (0, None)], [(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (0, 3)]


@st.composite
def quotas(draw: st.DrawFn, parts: Sequence[tuple[int | None, int | None]] = UNSTOPPED) -> Views:
    """The tenant that asks, with a guarantee or a maximum, and perhaps one that holds nothing and
    keeps a card."""
    nominal, borrowing = draw(st.sampled_from(parts))
    keeps = draw(st.sampled_from([{}, {"idle": member(gpu=(1, 0, 0))}]))
    return {"nlp": member(gpu=None if nominal is None else (nominal, borrowing))} | keeps


def lived(
    pool: CardTable, jobs: list[JobArrival], *held: Reservation, tenants: Views = NO_QUOTA
) -> PromiseReplay:
    replay = PromiseReplay(SimulatedPool(Snapshot(1, pool, tenants, (), reservations=held)))
    replay.play_arrivals(jobs)
    return replay


@lives
@given(layouts, arrivals(), quotas())
def test_no_promised_start_is_put_off_and_none_is_late(
    layout: str, jobs: list[JobArrival], views: Views
) -> None:
    ledger = lived(cards(layout), jobs, tenants=views).promises
    assert ledger.postponements == []
    assert ledger.late_heads == []


class FirstReplay(PromiseReplay):
    """Writes down what is promised to whoever waits longest."""

    def _schedule_wake(self, plan: Plan, now_ns: int) -> None:
        first = min(
            self.world.take_snapshot(now_ns).waiting,
            key=lambda one: (one.oldest_ns, one.job_ids[0]),
            default=None,
        )
        super()._schedule_wake(
            replace(
                plan, starts={k: s for k, s in plan.starts.items() if first and k == first.key}
            ),
            now_ns,
        )


@lives
@given(layouts, arrivals(), quotas(STOPPED))
def test_who_is_first_is_not_put_off_by_those_that_use_its_tenants_quota(
    layout: str, jobs: list[JobArrival], views: Views
) -> None:
    pool = cards(layout)
    able = [one for one in jobs if startable(pool, jobs, one.gang or one.job, views)]
    replay = FirstReplay(SimulatedPool(Snapshot(1, pool, views, ())))
    replay.play_arrivals(able)
    assert replay.promises.postponements == []
    assert replay.promises.late_heads == []
    assert len(replay.promises.started_ns) == len({one.gang or one.job for one in able})


@lives
@given(layouts, arrivals(limited=False), quotas(UNSTOPPED + STOPPED))
def test_everything_that_could_ever_start_does_with_or_without_limits(
    layout: str, jobs: list[JobArrival], views: Views
) -> None:
    replay = lived(cards(layout), jobs, tenants=views)
    waiting = {job.key.gang or job.id for job in replay.world.list_waiting()}
    assert {name for name in waiting if startable(cards(layout), jobs, name, views)} == set()


def startable(pool: CardTable, jobs: list[JobArrival], name: str, views: Views) -> bool:
    """Whether it starts when it is alone."""
    alone = [one for one in jobs if (one.gang or one.job) == name]
    return bool(lived(pool, alone, tenants=views).promises.started_ns)


@st.composite
def held(draw: st.DrawFn) -> list[Reservation]:
    found = []
    for number in range(draw(st.integers(1, 3))):
        start, length = draw(st.integers(0, 60)), draw(st.integers(1, 30))
        every = draw(st.sampled_from([None, None, 40, 90]))
        until = None if every is None else start + draw(st.integers(1, 200))
        want = draw(st.sampled_from([Shape(WHOLE), Shape(500, 4 * GIB), Shape(WHOLE, None, 2)]))
        found.append(
            reserved(
                f"r{number}",
                start,
                start + length,
                want=want,
                every=every,
                until=until,
                tenant="vision",
            )
        )
    return found


@st.composite
def busy(draw: st.DrawFn) -> tuple[CardTable, list[RunningJob]]:
    """A pool some of whose cards are partly taken, by jobs of which some are known to end."""
    pool, jobs = cards(draw(layouts)), []
    milli, size = pool.free_milli.copy(), pool.free_bytes.copy()
    for row in range(len(pool)):
        for _ in range(draw(st.integers(0, 2))):
            ends = draw(st.sampled_from([None, 10, 30, 70]))
            jobs.append(
                RunningJob(
                    f"r{len(jobs)}",
                    "nlp",
                    0,
                    (row,),
                    (400,),
                    (GIB,),
                    Shape(400, GIB),
                    0,
                    ends and ends * SECOND,
                )
            )
            milli[row], size[row] = milli[row] - 400, size[row] - GIB
    return replace(pool, free_milli=milli, free_bytes=size), jobs


@often
@given(
    busy(),
    held(),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([5, 20, 50, 120, None])), max_size=6),
)
def test_no_card_is_promised_twice_at_any_instant(
    pool: tuple[CardTable, list[RunningJob]],
    asked: list[Reservation],
    starts: list[tuple[int, int | None]],
) -> None:
    columns, jobs = pool
    free, timeline = FreeCapacity(columns), Timeline(columns, jobs, 0)
    hold_all(timeline, free, asked, jobs)
    at_first = least_ever(timeline, free)
    for card, seconds in starts:
        row, until = card % len(columns), timeline.compute_end(seconds)
        spare = int(timeline.subtract_holds(get_free_columns(free), until).milli[row])
        if spare > 0:
            free.take_seats(int(columns.node[row]), np.array([row]), spare, np.array([0]))
            timeline.add_end(taken(spare, 0, row), until)
    assert (least_ever(timeline, free) >= np.minimum(at_first, 0)).all()


def least_ever(timeline: Timeline, free: FreeCapacity) -> np.ndarray:
    """Per card, the least compute that is left at any instant."""
    return free.milli + timeline.get_low(0, NEVER).milli


@often
@given(held(), st.integers(0, 300), st.integers(1, 300))
def test_occurrences_of_a_window_are_those_of_the_whole_calendar_that_meet_it(
    asked: list[Reservation], since: int, length: int
) -> None:
    since_ns, until_ns = since * SECOND, (since + length) * SECOND
    for one in asked:
        everything = list(iterate_occurrences(one, 0, 1000 * SECOND))
        meeting = [
            found for found in everything if found.end_ns > since_ns and found.start_ns < until_ns
        ]
        assert list(iterate_occurrences(one, since_ns, until_ns)) == meeting
        assert all(
            found.end_ns - found.start_ns == one.end_ns - one.start_ns
            for found in everything
            if one.end_ns
        )


@often
@given(snapshots())
def test_without_anything_held_the_first_claims_of_the_queue_are_placed_as_ever(
    before: Snapshot,
) -> None:
    """Knowing how long jobs run changes nothing for what is placed before the first head that finds
    no room."""
    timed = replace(before, waiting=tuple(replace(one, seconds=60) for one in before.waiting))
    plain, known = cycle(before, 0).placements, cycle(timed, 0).placements
    if not cycle(timed, 0).starts:
        assert known == plain


@lives
@given(layouts, arrivals(), held())
def test_reserved_cards_are_there_when_the_reservation_starts(
    layout: str, jobs: list[JobArrival], asked: list[Reservation]
) -> None:
    (first, *_) = asked
    pool = cards(layout)
    once = replace(first, every_ns=None, until_ns=None)
    tenants = {"nlp": TenantView(UNLIMITED, ResourceAmount())}
    replay = PromiseReplay(
        SimulatedPool(Snapshot(1, pool, tenants, (), reservations=(once,))),
        until_ns=once.start_ns + SECOND // 2,
    )
    replay.play_arrivals([one for one in jobs if one.at_ns > 0])
    assert room(once, replay.world.cards) == room(once, pool)


def room(asked: Reservation, pool: CardTable) -> int:
    free = FreeCapacity(pool)
    return count_claims(
        pick_cards(ClaimFit(asked.shape, free), free, get_free_columns(free), 1), asked.shape.count
    )


def follows(
    number: int, row: int, now_ns: int, ends: int | None, reserved: bool, leaves: bool
) -> RunningJob:
    """A small job on that card; `ends` seconds from now."""
    at = None if ends is None else now_ns + ends * SECOND
    shape = Shape(300, GIB, cpu_milli=500, host_bytes=GIB)
    name = "r0" if reserved else None
    for_whom = "x" if leaves else ""
    return RunningJob(
        f"j{number}",
        "vision",
        0,
        (row,),
        (300,),
        (GIB,),
        shape,
        now_ns,
        at,
        reservation=name,
        beneficiary=for_whom,
    )


happenings = st.tuples(
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from([None, 10, 30, 200]),
    st.sampled_from([0, 0, 20, 100]),
    st.booleans(),
    st.booleans(),
)
"""A job; its card (none: it goes); when it ends; how long after the last happening; whether
reserved, and leaving."""
windows = st.tuples(
    st.integers(0, 300),
    st.integers(1, 300),
    st.sampled_from(["", "vision/r0"]),
    st.sampled_from(JobFilter),
)


@often
@given(
    st.lists(happenings, max_size=12),
    held(),
    st.lists(windows, min_size=1, max_size=4),
    st.booleans(),
)
def test_what_is_kept_from_plan_to_plan_is_what_would_be_made_anew(
    happened: list[tuple[int, int | None, int | None, int, bool, bool]],
    asked: list[Reservation],
    looks: list[tuple[int, int, str, JobFilter]],
    told: bool,
) -> None:
    """Whether the changes are told by a register or found by comparing, and whichever of them were
    seen one by one."""
    pool, register, roster, now = (
        cards("1x3xT4", hosts=(8000, 64 * GIB)),
        RunningJobsRegister(),
        RunningJobsIndex(),
        0,
    )
    roster.begin(pool)
    for number, row, ends, step, reserves, leaves in happened:
        now += step * SECOND
        if row is None:
            register.remove_job(f"j{number}")
        else:
            register.put_job(follows(number, row, now, ends, reserves, leaves))
        if number % 2:
            roster.follow(register.get_view() if told else tuple(register.get_view()))
            Timeline(pool, roster.ends, now)
    roster.follow(register.get_view() if told else tuple(register.get_view()))
    running, kept = tuple(register.get_view()), Timeline(pool, roster.ends, now)
    assert roster.list_reserved() == sorted(
        (j for j in running if j.reservation), key=lambda j: (j.started_ns, j.job)
    )
    assert roster.has_evictable_jobs == any(j.beneficiary for j in running)
    hold_all(kept, FreeCapacity(pool), asked, ())
    kept.add_end(taken(100, GIB, 1), now + 40 * SECOND)
    made = Timeline(pool, running, now)
    for hold in kept.holds:
        made.hold(hold)
    made.add_end(taken(100, GIB, 1), now + 40 * SECOND)
    assert kept.list_instants().tolist() == made.list_instants().tolist()
    for since, length, owner, jobs in looks:
        window = now + since * SECOND, now + (since + length) * SECOND
        assert least(kept, *window, owner, jobs) == least(made, *window, owner, jobs)
        assert least(kept, *window, owner, jobs)[0] == one_by_one(
            kept, running, *window, owner, jobs
        )


def least(
    timeline: Timeline, since: int, until: int, owner: str, jobs: JobFilter
) -> list[list[int]]:
    return [column.tolist() for column in timeline.get_low(since, until, owner, jobs)]


def one_by_one(
    timeline: Timeline,
    running: tuple[RunningJob, ...],
    since: int,
    until: int,
    owner: str,
    jobs: JobFilter,
) -> list[int]:
    """The least compute per card in the window, added up job by job and hold by hold at every
    instant."""

    def counts(job: RunningJob) -> bool:
        mine = owner != "" and name_owner(job.tenant, job.reservation) == owner
        return jobs is JobFilter.ALL or (jobs is JobFilter.OTHERS and not mine)

    def there(at: int, row: int) -> int:
        back = [
            (job.rows[0], 300, compute_expected_end(job, timeline.now_ns))
            for job in running
            if counts(job)
        ]
        if jobs is not JobFilter.NONE:
            back.append((1, 100, timeline.now_ns + 40 * SECOND))
        came = sum(milli for place, milli, end in back if place == row and end <= at)
        held = [
            one
            for one in timeline.holds
            if one.start_ns <= at < one.end_ns and (not owner or one.owner != owner)
        ]
        return came - sum(int(one.taken.milli[one.taken.rows == row].sum()) for one in held)

    starts = [one.start_ns for one in timeline.holds]
    instants = {
        since,
        *(at for at in (*timeline.list_instants().tolist(), *starts) if since < at < until),
    }
    return [min(there(at, row) for at in instants) for row in range(len(timeline.cards))]
