"""Idle jobs give way to a suspended job that wants to work, on its own cards alone."""

from __future__ import annotations

from itertools import pairwise

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.idle_suspension import (
    IdleJob,
    ReturningJob,
    find_return_victims,
    has_return_room,
    replace_suspended,
)
from gpupool.scheduling.snapshot.claims import RunningJob, SuspendedJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import running
from tests.support.preemption_builders import asked, busy
from tests.support.scheduling_builders import cards

POOL = cards("2xH200")
BACK = ReturningJob("back", 500, {POOL.uuids[0]: 60 * GIB})


def hold(job: str, card: int, milli: int, gib: int) -> RunningJob:
    return running(POOL, job, POOL.uuids[card], want=Shape(milli, gib * GIB))


def idle(job: str, minutes: int) -> IdleJob:
    return IdleJob(job, minutes * 60 * 10**9, GIB)


def away(job: str, wanted_ns: int = 1, gib: int = 60) -> SuspendedJob:
    return SuspendedJob(job, (0,), 500, (gib * GIB,), wanted_ns)


def pool(*jobs: RunningJob, suspended: tuple[SuspendedJob, ...] = (away("back"),)) -> Snapshot:
    return replace_suspended(asked(busy(POOL, *jobs)), suspended)


def test_the_longest_idle_job_of_its_card_gives_way() -> None:
    before = pool(hold("a", 0, 500, 60), hold("b", 0, 500, 60), hold("c", 1, 1000, 60))
    assert find_return_victims(before, BACK, [idle("a", 1), idle("b", 2), idle("c", 9)]) == ("b",)


def test_as_many_give_way_as_its_room_needs() -> None:
    before = pool(hold("a", 0, 300, 20), hold("b", 0, 300, 20), hold("s", 0, 100, 1))
    # Compute is short by 200; the small one alone gives 100, the next one alone is enough.
    victims = find_return_victims(before, BACK, [idle("a", 1), idle("b", 2), idle("s", 9)])
    assert victims == ("b",)


def test_none_gives_way_where_there_is_room_or_never_enough() -> None:
    assert find_return_victims(pool(hold("a", 0, 500, 60)), BACK, [idle("a", 1)]) == ()
    before = pool(hold("a", 0, 400, 20), hold("b", 0, 600, 20))
    assert find_return_victims(before, BACK, [idle("a", 1)]) == ()


def test_a_job_comes_back_to_room_that_is_kept_for_it_and_for_those_after_it() -> None:
    jobs = (away("back", 5), away("later", 9), away("asleep", 0))
    half = hold("a", 0, 500, 60)
    assert has_return_room(pool(half, suspended=jobs), BACK)
    # Room for one of them alone: the job that woke first has it.
    assert not has_return_room(pool(half, suspended=(away("back", 5), away("b", 2))), BACK)
    assert not has_return_room(pool(half, suspended=(away("back", 0), away("b", 2))), BACK)
    assert has_return_room(pool(suspended=(away("back", 5), away("b", 2))), BACK)


def test_the_order_of_return_is_that_of_waking_and_then_the_name() -> None:
    jobs = [away("d", 0), away("c", 3), away("b", 7), away("a", 7)]
    for first, second in pairwise(["c", "a", "b", "d"]):
        one, other = (next(job for job in jobs if job.job == name) for name in (first, second))
        assert one.is_before(other)
        assert not other.is_before(one)
