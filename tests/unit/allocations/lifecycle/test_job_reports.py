"""Reports of a node: applied once, in order, and only for the present generation."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import launches
from gpupool.base.units import GIB
from tests.support.house import House
from tests.support.ledger_sums import used


def test_a_job_that_ended_keeps_no_environment(house: House) -> None:
    house.submit(name="train")
    house.finish("train")
    with house.store.read() as connection:
        assert connection.execute(sa.select(launches)).all() == []


def test_telling_the_end_twice_gives_back_once(house: House) -> None:
    house.submit(name="a")
    house.submit(name="b")
    item = next(item for item in house.work() if item.job_name == "a")
    for _ in range(2):
        assert house.report(item, "ended", exit_code=0) == []
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_a_report_of_another_generation_changes_nothing(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    stale = item.model_copy(update={"generation": item.generation - 1})
    assert house.report(stale, "ended", exit_code=0) == [item.allocation]
    assert house.job("a").state == "starting"


def test_a_lost_supervisor_loses_the_job_and_frees_the_share(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "lost")
    assert house.job("a").state == "lost"
    assert used(house)[0] == (0, 0, 0)


def test_a_job_that_never_started_waits_again_and_is_placed_anew(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "not_started", reason="prepare failed")
    house.allocations.placer.run_cycle()
    again = house.work()
    assert [(other.job, other.allocation != item.allocation) for other in again] == [
        (item.job, True)
    ]
    assert used(house)[0] == (300, 8 * GIB, 1)


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ({"exit_code": 0, "reason": "exited"}, "done", ""),
        ({"signal": 11, "reason": "signalled"}, "failed", "killed by SIGSEGV"),
    ],
)
def test_a_stop_that_comes_after_the_commands_own_end_changes_no_state(
    house: House, how: dict[str, object], state: str, reason: str
) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "running")
    house.allocations.jobs.stop_job("a", house.admin, None)
    house.report(item, "ended", **how)
    assert (house.job("a").state, house.job("a").reason) == (state, reason)
