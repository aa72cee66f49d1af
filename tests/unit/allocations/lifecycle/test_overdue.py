"""Jobs that make no progress: every state has a deadline or a reason to stay, and what is overdue
is resolved."""

from __future__ import annotations

from itertools import count

import pytest

from gpupool.allocations.lifecycle.overdue import OverdueJobs
from gpupool.model import allocation, deadlines, job
from gpupool.model.deadlines import END_SECONDS, SAID_SECONDS, START_SECONDS
from gpupool.store.tables import events
from gpupool.wire.fleet import WorkOut
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House
from tests.support.killed import killed_at
from tests.support.written_rows import written_rows

S = 10**9
PART = 5
ROWS_A_JOB = 6
ROWS_BESIDE = 8


class Later:
    """The ledger's time, and what a test adds to it."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.ahead_ns = 0

    def __call__(self) -> int:
        return self._house.store.clock.now_ns() + self.ahead_ns

    def forward(self, seconds: float) -> None:
        self.ahead_ns += int(seconds * S)


@pytest.fixture
def later(house: House) -> Later:
    return Later(house)


@pytest.fixture
def overdue(house: House, later: Later) -> OverdueJobs:
    house.fleet.mark_ready("node-1")
    return OverdueJobs(house.store, house.allocations.stops.stop_jobs, later)


def wanted(house: House) -> list[WorkOut]:
    return [item for item in house.work() if item.want == "stop"]


def told(house: House) -> list[str]:
    with house.store.read() as connection:
        return [
            row.kind for row in connection.execute(events.select()) if row.kind == "job.overdue"
        ]


def test_every_state_that_is_not_an_end_has_a_deadline_or_a_reason_to_stay() -> None:
    assert set(deadlines.JOBS) == set(job.LIVE)
    assert set(deadlines.ALLOCATIONS) == set(allocation.HELD)
    assert all(stay.why for stay in (*deadlines.JOBS.values(), *deadlines.ALLOCATIONS.values()))


def test_a_job_that_its_node_does_not_start_is_said_and_then_stopped(
    house: House, later: Later, overdue: OverdueJobs
) -> None:
    house.submit(name="stuck")
    assert overdue.has_overdue_jobs().state == "ok"
    later.forward(SAID_SECONDS + 1)
    assert overdue.has_overdue_jobs().state == "warn"
    overdue.resolve_overdue_jobs()
    assert wanted(house) == []
    later.forward(START_SECONDS)
    assert overdue.has_overdue_jobs().state == "fail"
    overdue.resolve_overdue_jobs()
    (item,) = wanted(house)
    house.report(item, "not_started")
    assert (house.job("stuck").state, house.job("stuck").reason) == (
        "stopped",
        "its node did not start it within 600 s",
    )
    assert overdue.has_overdue_jobs().state == "ok"
    assert told(house) == ["job.overdue"]


def test_a_job_that_runs_may_stay(house: House, later: Later, overdue: OverdueJobs) -> None:
    house.submit(name="long")
    house.report(house.work()[0], "running", started_ns=5)
    later.forward(100 * START_SECONDS)
    overdue.resolve_overdue_jobs()
    assert overdue.has_overdue_jobs().state == "ok"
    assert wanted(house) == []


def test_an_end_that_is_not_told_is_asked_for_again_and_said_once(
    house: House, later: Later, overdue: OverdueJobs
) -> None:
    house.submit(name="ending")
    house.report(house.work()[0], "running", started_ns=5)
    house.allocations.jobs.stop_job(house.job("ending").id, house.admin, None)
    assert overdue.has_overdue_jobs().state == "ok"
    cursor = house.allocations.agents.read_work("node-1", 0).cursor
    for _ in range(2):
        later.forward(END_SECONDS + 60)
        assert overdue.has_overdue_jobs().state == "fail"
        overdue.resolve_overdue_jobs()
        again = house.allocations.agents.read_work("node-1", cursor)
        assert [item.want for item in again.work] == ["stop"]
        cursor = again.cursor
    assert told(house) == ["job.overdue"]
    house.report(wanted(house)[0], "ended", reason="stopped")
    assert overdue.has_overdue_jobs().state == "ok"


def test_a_silent_node_has_another_finding(
    house: House, later: Later, overdue: OverdueJobs
) -> None:
    house.submit(name="unknown")
    house.fleet.await_agents()  # no node is ready until its agent has told what became of its jobs
    later.forward(2 * START_SECONDS)
    overdue.resolve_overdue_jobs()
    assert overdue.has_overdue_jobs().state == "ok"
    assert wanted(house) == []


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        "ledger.gang_lifecycle.MEMBERS",
        "submission.gang_parts.MEMBERS",
        "stop.JOBS",
        "lifecycle.overdue.ASKED",
    )
    for name in parts:
        monkeypatch.setattr(f"gpupool.allocations.{name}_AT_ONCE", PART)


def many(house: House, large: int = 7, single: int = 6) -> None:
    """A large gang, a small one and single jobs, all of which hold cards."""
    for name, members in (("large", large), ("small", 3)):
        house.submit(
            1,
            None,
            name=name,
            gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=members)]),
        )
    for number in range(single):
        house.submit(1, None, name=f"single-{number}")


@pytest.mark.usefixtures("small_parts")
def test_what_is_overdue_is_resolved_in_transactions_of_a_bounded_size(
    house: House, later: Later, overdue: OverdueJobs
) -> None:
    many(house, large=12, single=11)
    later.forward(START_SECONDS + 1)
    with written_rows(house.store.engine) as written:
        overdue.resolve_overdue_jobs()
        assert len(wanted(house)) == len(told(house)) == 26
        assert overdue.has_overdue_jobs().state == "ok"
        later.forward(END_SECONDS + 11)
        overdue.resolve_overdue_jobs()
    assert max(written) <= PART * ROWS_A_JOB + ROWS_BESIDE
    assert len(told(house)) == 52


@pytest.mark.usefixtures("small_parts")
def test_a_server_killed_while_it_stops_what_is_overdue_leaves_the_rest_to_the_next(
    house: House, later: Later
) -> None:
    house.fleet.mark_ready("node-1")
    for number in count(1):
        many(house)
        began = len(told(house))
        overdue = OverdueJobs(house.store, house.allocations.stops.stop_jobs, later)
        later.forward(START_SECONDS + 1)
        with killed_at(house, number) as seen:
            overdue.resolve_overdue_jobs()
        following = OverdueJobs(house.store, house.allocations.stops.stop_jobs, later)
        later.forward(START_SECONDS + 1)
        following.resolve_overdue_jobs()
        # What the first one stopped is asked for no more by the next: to that, its end has just
        # begun.
        assert len(wanted(house)) == len(told(house)) - began == 16
        for item in wanted(house):
            house.report(item, "not_started")
        if len(seen) < number:
            break
    assert number > 10
