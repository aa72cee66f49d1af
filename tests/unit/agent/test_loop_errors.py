"""An agent in which a step fails with an unexpected error: each job ends with a report, no card
stays held."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.agent.jobs import finish
from gpupool.agent.jobs.faults import STEPS
from gpupool.agent.loop import Agent
from gpupool.agent.supervisor.job_spec import BadSpec, JobSpec
from gpupool.allocations.store.tables import launches
from tests.support.supervised import until
from tests.unit.agent.pool import PoolServer, agent_here

pytestmark = pytest.mark.root


class FailsOnce:
    """Raises an unexpected error the first time that any job comes to each of these steps."""

    def __init__(self) -> None:
        self.left = set(STEPS)
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        with self._lock:
            if step not in self.left:
                return
            self.left.discard(step)
        raise ValueError(f"injected at {step}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PoolServer]:
    made = PoolServer(tmp_path)
    made.begin()
    yield made
    made.end()


def started(server: PoolServer, fault: FailsOnce | None = None) -> Agent:
    agent = agent_here(server, fault=fault)
    agent.start()
    until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
    return agent


def ended(agent: Agent) -> None:
    agent.close()
    agent.join()


def test_an_unexpected_error_at_any_step_ends_in_a_report(server: PoolServer) -> None:
    fault = FailsOnce()
    agent = started(server, fault)
    try:
        jobs = [server.submit("sleep 0.3")["id"] for _ in STEPS]
        done = [server.until_state(job, "done", "failed") for job in jobs]
        until(lambda: not server.leftovers(), "nothing being left")
    finally:
        ended(agent)
    assert fault.left == set()
    assert server.held_shares() == 0
    assert all("injected at" in one["reason"] for one in done if one["state"] == "failed"), done


def test_a_description_that_the_node_refuses_fails_the_job(server: PoolServer) -> None:
    """As an earlier version accepted it: what is stored may be worse than what is accepted now."""
    ended(started(server))
    job = server.submit("true")["id"]  # granted; no agent is there to start it
    assert server.services is not None
    with server.services.store.write() as write:
        row = write.execute(sa.select(launches.c.job_id, launches.c.spec)).one()
        bad = {**row.spec, "limits": {"a:b": [1, 2]}}
        write.execute(launches.update().where(launches.c.job_id == row.job_id).values(spec=bad))
    agent = started(server)
    try:
        failed = server.until_state(job, "failed")
        until(lambda: not server.leftovers(), "nothing being left")
    finally:
        ended(agent)
    assert "rlimit" in failed["reason"], failed
    assert server.held_shares() == 0


def test_cgroups_that_cannot_be_removed_do_not_hold_the_card(
    server: PoolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_directory: Path) -> JobSpec:
        raise BadSpec("injected")

    monkeypatch.setattr(finish, "remove_cgroups", fails)
    agent = started(server)
    try:
        failed = server.until_state(server.submit("exit 3")["id"], "failed")
        until(lambda: not server.leftovers(), "nothing being left")
    finally:
        ended(agent)
    assert failed["exit_code"] == 3
    assert server.held_shares() == 0
