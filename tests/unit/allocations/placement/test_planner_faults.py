"""What people hear of a placement policy that fails, or of a past that nobody can read; jobs are
placed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import claims
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.scoring.stream_fill import policy as score_stream
from gpupool.scheduling.scoring.stream_fill.policy import start_rater as stream_start
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.server.compose import check_placement
from gpupool.store import counters
from gpupool.store.tables import events
from tests.support.house import House


class Failing:
    """The default policy; raises while `raising`."""

    NAME = "default"
    raising = True

    def start_rater(self, free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
        if self.raising:
            raise ZeroDivisionError("integer division or modulo by zero")
        return stream_start(free, expected, seed)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    policy = Failing()
    monkeypatch.setattr(registry, "POLICIES", {**registry.POLICIES, score_stream.NAME: policy})
    return policy


def told(house: House) -> list[tuple[str, str, Any]]:
    with house.store.read() as connection:
        query = (
            sa.select(events).where(events.c.kind.startswith("scheduler.")).order_by(events.c.seq)
        )
        return [(row.kind, row.subject, row.data) for row in connection.execute(query)]


def failures() -> int:
    return counters.decisions.policy_failures.read().get(("default",), 0)


def test_jobs_are_placed_while_the_policy_fails_and_everybody_is_told(
    failing: Failing, tmp_path: Path
) -> None:
    before = failures()
    house = House(tmp_path)
    try:
        job = house.submit(1000, None, name="a")
        assert (job.state, job.why) == (
            "starting",
            "node-1 is the only node that fits; on its fullest card",
        )
        house.submit(1000, None, name="b")
        house.submit(1000, None, name="c")
        house.allocations.placer.run_cycle()
        ((kind, policy, data),) = told(house)
        assert (kind, policy) == ("scheduler.policy_failed", "default")
        assert data["sentence"] == "placement policy default failed; binpack places in its stead"
        assert data["error"].startswith(
            "ZeroDivisionError: integer division or modulo by zero (test_planner_faults.py:"
        )
        assert failures() == before + 1
        waits = house.allocations.jobs.explain_job("c", house.admin)
        assert waits.hints[-1] == f"{data['sentence']} (an admin sees why: gpupool doctor)"
        house.allocations.placer.run_cycle()
        assert len(told(house)) == 1, "it is told once"
        found = check_placement(house.allocations)
        assert (found.state, found.text) == ("fail", f"{data['sentence']}: {data['error']}")
        failing.raising = False
        house.restart()
        house.finish("a")
        house.allocations.placer.run_cycle()
        assert (house.job("c").state, house.allocations.placer.planner.fault) == ("starting", None)
        assert check_placement(house.allocations).text == "policy default decides"
    finally:
        house.close()


def test_that_it_works_again_is_told_too(house: House, failing: Failing) -> None:
    house.submit(1000, None, name="a")
    house.allocations.placer.run_cycle()
    failing.raising = False
    house.allocations.cache.policy = "binpack"
    house.submit(1000, None, name="b")
    house.allocations.placer.run_cycle()
    assert [(kind, policy) for kind, policy, _ in told(house)] == [
        ("scheduler.policy_failed", "default"),
        ("scheduler.policy_restored", "default"),
    ]


def test_a_past_that_cannot_be_read_stops_no_pool(house: House) -> None:
    house.submit(500, 8, name="old")
    house.finish("old")
    with house.store.engine.begin() as connection:
        connection.execute(sa.update(claims).values(sharing="of another version"))
        connection.execute(sa.text("UPDATE claims SET labels = 'no json at all {'"))
    house.restart()
    fault = house.allocations.placer.planner.fault
    assert fault is not None
    assert fault.sentence == "what the pool has learnt from its past cannot be read; it learns anew"
    assert house.submit(500, 8, name="new").state == "starting"
    house.allocations.placer.run_cycle()
    assert [kind for kind, _, _ in told(house)] == ["scheduler.policy_failed"]
