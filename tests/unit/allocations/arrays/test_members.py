"""Members of an array become jobs in the transaction that places them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import arrays, jobs, launches
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.errors import WrongState
from gpupool.scheduling.preemption.victims import PreemptionRules
from tests.support.array_rows import MILLION, array_row, count, listed
from tests.support.house import House
from tests.support.written_rows import written_rows


def test_an_array_shares_one_claim_and_is_stopped_by_its_name(house: House) -> None:
    house.submit(500, 8, name="sweep", array=5)
    house.allocations.placer.run_cycle()
    jobs = house.allocations.jobs.list_jobs(house.admin, JobFilter(), None, 10).items
    assert sorted(job.name for job in jobs) == [f"sweep.{n}" for n in range(5)]
    assert sorted(job.state for job in jobs) == ["pending"] + ["starting"] * 4
    assert {item.env["GPUPOOL_ARRAY_INDEX"] for item in house.work()} <= {"0", "1", "2", "3", "4"}
    assert len(house.allocations.jobs.stop_job("sweep", house.admin, None)) == 5


def test_an_array_of_a_million_costs_rows_only_for_what_runs(house: House) -> None:
    with written_rows(house.store.engine) as written:
        house.submit(1000, None, name="sweep", array=MILLION)
    assert max(written) < 30
    assert sum(written) < 60
    assert (count(house, jobs), count(house, arrays), count(house, launches)) == (2, 1, 0)
    assert house.allocations.cache.count_waiting() == MILLION - 2
    with written_rows(house.store.engine) as written:
        house.finish("sweep.0")
        house.allocations.placer.run_cycle()
    assert sum(written) < 60
    assert [job.name for job in listed(house)] == [
        "sweep.[3-999999]",
        "sweep.2",
        "sweep.1",
        "sweep.0",
    ]


def test_members_start_in_order_and_know_their_index_and_command(house: House) -> None:
    house.submit(1000, None, name="sweep", array=3)
    work = {item.job_name: item for item in house.work()}
    assert {name: item.env["GPUPOOL_ARRAY_INDEX"] for name, item in work.items()} == {
        "sweep.0": "0",
        "sweep.1": "1",
    }
    assert all((item.argv, item.env["SECRET"]) == (["true"], "x") for item in work.values())


def test_a_member_that_is_stopped_before_its_turn_is_passed_over(house: House) -> None:
    house.submit(1000, None, name="sweep", array=5)
    (told,) = house.allocations.jobs.stop_job("sweep.2", house.admin, None)
    assert (told.name, told.state) == ("sweep.2", "stopped")
    with pytest.raises(WrongState):
        house.allocations.jobs.stop_job("sweep.2", house.admin, None)
    house.finish("sweep.0")
    house.allocations.placer.run_cycle()
    assert house.job("sweep.3").state == "starting"
    assert house.allocations.jobs.get_array("sweep", house.admin).states == {
        "done": 1,
        "stopped": 1,
        "starting": 2,
        "pending": 1,
    }
    assert array_row(house).next_index == 4


def test_who_is_asked_to_leave_for_a_member_does_so_for_a_job_that_is_written_down(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, cards=1, rules=PreemptionRules(protected_s=0, grace_s=7))
    try:
        house.submit(1000, None, name="low", preemptible=True)
        house.report(house.work()[0], "running", started_ns=5)
        house.submit(1000, None, name="urgent", array=5, priority="high")
        house.submit(1000, None, name="rival", priority="high")
        first = house.job("urgent.0")
        with house.store.read() as connection:
            left = connection.execute(
                sa.select(jobs.c.leaving_for).where(jobs.c.name == "low")
            ).scalar_one()
        assert left == first.id
        house.restart()
        house.finish("low", reason="stopped", signal=15, exit_code=None)
        house.allocations.placer.run_cycle()
        assert house.job("urgent.0").state == "starting"
        house.finish("urgent.0")
        house.allocations.placer.run_cycle()
        house.report(
            next(item for item in house.work() if item.job_name == "urgent.1"),
            "running",
            started_ns=6,
        )
    finally:
        house.close()
