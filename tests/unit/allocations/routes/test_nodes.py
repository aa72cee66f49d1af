"""Routes of agents: a request for work is a heartbeat, and reports are taken in."""

from __future__ import annotations

import asyncio

from gpupool.allocations.routes.nodes import reports, work
from gpupool.fleet.agent_liveness import SILENT_AFTER_SECONDS
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkPage
from tests.support.house import House
from tests.support.route_requests import make_request

LONG = 30.0


def ask(house: House, after: int = 0) -> WorkPage:
    request = make_request(house)
    return asyncio.run(work(request, "node-1", house.allocations, house.admin, after, LONG))


def test_a_silent_node_that_asks_for_work_is_ready_again(house: House) -> None:
    house.fleet.mark_ready("node-1")
    later_ns = house.store.clock.now_ns() + SILENT_AFTER_SECONDS * 10**9
    (agent,) = house.fleet._liveness.mark_silent_agents(later_ns)[0]
    house.fleet._mark_silent(agent)
    assert not house.fleet.get_node("node-1").ready
    ask(house)
    assert house.fleet.get_node("node-1").ready
    assert not house.fleet.is_silent("node-1")


def test_work_from_the_beginning_lists_all_live_allocations(house: House) -> None:
    house.submit(name="a")
    first = ask(house)
    assert first.live == [item.allocation for item in first.work]
    house.allocations.jobs.stop_job("a", house.admin, 0)
    then = ask(house, first.cursor)
    assert ([item.want for item in then.work], then.live) == (["stop"], None)


def test_reports_answer_with_the_allocations_that_are_stale(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    told = [
        ReportIn(allocation=item.allocation, generation=item.generation, state="running"),
        ReportIn(allocation="a-unknown", generation=1, state="running"),
    ]
    answer = reports("node-1", ReportsIn(reports=told), house.allocations, house.admin)
    assert answer.stale == ["a-unknown"]
    assert house.job("a").state == "running"
