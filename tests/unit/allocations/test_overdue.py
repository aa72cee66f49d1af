"""Jobs that make no progress: every state has a deadline or a reason to stay, and what is overdue is resolved."""

from __future__ import annotations

import pytest

from gpupool.allocations.overdue import Overdue
from gpupool.model import allocation, deadlines, job
from gpupool.model.deadlines import END_SECONDS, SAID_SECONDS, START_SECONDS
from gpupool.store.tables import events
from gpupool.wire.fleet import WorkOut
from tests.support.house import House

S = 10**9


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
def overdue(house: House, later: Later) -> Overdue:
    house.fleet.mark_ready("node-1")
    return Overdue(house.store, later)


def wanted(house: House) -> list[WorkOut]:
    return [item for item in house.work() if item.want == "stop"]


def told(house: House) -> list[str]:
    with house.store.read() as connection:
        return [row.kind for row in connection.execute(events.select()) if row.kind == "job.overdue"]


def test_every_state_that_is_not_an_end_has_a_deadline_or_a_reason_to_stay() -> None:
    assert set(deadlines.JOBS) == set(job.LIVE)
    assert set(deadlines.ALLOCATIONS) == set(allocation.HELD)
    assert all(stay.why for stay in (*deadlines.JOBS.values(), *deadlines.ALLOCATIONS.values()))


def test_a_job_that_its_node_does_not_start_is_said_and_then_stopped(
    house: House, later: Later, overdue: Overdue
) -> None:
    house.submit(name="stuck")
    assert overdue.check().state == "ok"
    later.forward(SAID_SECONDS + 1)
    assert overdue.check().state == "warn"
    overdue.resolve()
    assert wanted(house) == []
    later.forward(START_SECONDS)
    assert overdue.check().state == "fail"
    overdue.resolve()
    (item,) = wanted(house)
    house.report(item, "not_started")
    assert (house.job("stuck").state, house.job("stuck").reason) == (
        "stopped",
        "its node did not start it within 600 s",
    )
    assert overdue.check().state == "ok"
    assert told(house) == ["job.overdue"]


def test_a_job_that_runs_may_stay(house: House, later: Later, overdue: Overdue) -> None:
    house.submit(name="long")
    house.report(house.work()[0], "running", started_ns=5)
    later.forward(100 * START_SECONDS)
    overdue.resolve()
    assert overdue.check().state == "ok"
    assert wanted(house) == []


def test_an_end_that_is_not_told_is_asked_for_again_and_said_once(house: House, later: Later, overdue: Overdue) -> None:
    house.submit(name="ending")
    house.report(house.work()[0], "running", started_ns=5)
    house.allocations.stop(house.job("ending").id, house.admin, None)
    assert overdue.check().state == "ok"
    cursor = house.allocations.agents.work("node-1", 0).cursor
    for _ in range(2):
        later.forward(END_SECONDS + 60)
        assert overdue.check().state == "fail"
        overdue.resolve()
        again = house.allocations.agents.work("node-1", cursor)
        assert [item.want for item in again.work] == ["stop"]
        cursor = again.cursor
    assert told(house) == ["job.overdue"]
    house.report(wanted(house)[0], "ended", reason="stopped")
    assert overdue.check().state == "ok"


def test_a_silent_node_has_another_finding(house: House, later: Later, overdue: Overdue) -> None:
    house.submit(name="unknown")
    house.fleet.begin()  # no node is ready until its agent has told what became of its jobs
    later.forward(2 * START_SECONDS)
    overdue.resolve()
    assert overdue.check().state == "ok"
    assert wanted(house) == []
