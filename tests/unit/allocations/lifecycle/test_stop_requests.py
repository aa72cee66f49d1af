"""Requests to stop: waiting jobs end at once, working jobs when their node says so."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    WrongState,
)
from tests.support.house import House
from tests.support.ledger_sums import used


def test_stopping_a_waiting_job_ends_it_at_once(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(name="later")
    (stopped,) = house.allocations.jobs.stop_job("later", house.admin, None)
    assert (stopped.state, stopped.reason) == ("stopped", "stopped by its user")
    house.finish("whole-0")
    house.allocations.placer.run_cycle()
    assert house.job("later").state == "stopped"


def test_stopping_a_running_job_asks_its_node_and_counts_until_the_node_says_so(
    house: House,
) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "running")
    cursor = house.allocations.agents.read_work("node-1", 0).cursor
    house.allocations.jobs.stop_job("a", house.admin, 3)
    (stop,) = house.work(cursor)
    assert (stop.want, stop.grace_seconds, stop.generation) == ("stop", 3, item.generation)
    assert used(house)[0][2] == 1
    house.report(stop, "ended", signal=15)
    assert (house.job("a").state, used(house)[0]) == ("stopped", (0, 0, 0))
    with pytest.raises(WrongState):
        house.allocations.jobs.stop_job("a", house.admin, None)
