"""Ends of jobs in the ledger: waiting jobs end at once, working jobs are asked to end."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.ledger.job_stops import stop_waiting_jobs, stop_working_jobs
from gpupool.allocations.store.tables import gangs, jobs, launches
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


def read_job_row(house: House, name: str) -> sa.Row[tuple[object, ...]]:
    with house.store.read() as connection:
        return connection.execute(sa.select(jobs).where(jobs.c.name == name)).one()


def stop_working(house: House, name: str, why: str, grace_s: int | None) -> list[str]:
    with house.store.write() as write:
        return stop_working_jobs(write, [read_job_row(house, name).id], why, grace_s)


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ("preempted", "user", "user"),
        ("user", "preempted", "user"),
        ("preempted", "moved", "preempted"),
        ("user", "down", "user"),
    ],
)
def test_a_final_reason_replaces_one_that_would_requeue_the_job(
    house: House, first: str, second: str, stays: str
) -> None:
    job = house.submit(name="a").id
    assert stop_working(house, "a", first, 30) == [job]
    assert stop_working(house, "a", second, 5) == ([job] if stays == second else [])
    row = read_job_row(house, "a")
    assert (row.stop_requested, row.stop_grace_s) == (stays, 5)


def test_a_stop_without_a_grace_leaves_the_one_that_was_given(house: House) -> None:
    house.submit(name="a")
    stop_working(house, "a", "user", 7)
    stop_working(house, "a", "user", None)
    assert house.work()[0].grace_seconds == 7


def test_a_job_that_waits_is_no_working_job(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    house.submit(name="waits")
    assert stop_working(house, "waits", "user", None) == []
    assert read_job_row(house, "waits").stop_requested is None


def test_a_waiting_job_that_is_stopped_loses_its_launch_and_says_why(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    job = house.submit(name="waits").id
    with house.store.write() as write:
        assert stop_waiting_jobs(write, [], "user") == []
        assert stop_waiting_jobs(write, [read_job_row(house, "waits").id], "down") == [job]
    stopped = house.job("waits")
    assert (stopped.state, stopped.reason) == ("stopped", "stopped with the pool")
    with house.store.read() as connection:
        left = connection.execute(sa.select(jobs.c.name).join(launches)).scalars().all()
    assert left == ["holder"]


def test_the_launch_of_a_gang_goes_with_its_last_member(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    parts = [RoleIn(name="worker", count=2)]
    house.submit(1000, None, name="gang", gang=GroupIn(name="all", parts=parts))
    for rank, has_launch in ((0, True), (1, False)):
        with house.store.write() as write:
            stop_waiting_jobs(write, [read_job_row(house, f"gang.{rank}").id], "user")
            launch = write.execute(sa.select(gangs.c.launch)).scalar_one()
        assert (launch is not None) is has_launch
