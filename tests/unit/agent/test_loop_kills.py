"""An agent killed with -9 at each named step: whoever comes next finishes, the job ran once,
nothing is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.jobs.faults import RESIZE_STEPS, STEPS, ignore_step, make_step_hook
from gpupool.agent.supervisor.client import JobState, inspect_job
from gpupool.base.errors import BadOption
from tests.support.supervised import until
from tests.unit.agent.pool import AgentProcess, PoolServer

STARTED = STEPS[STEPS.index("shim-started") :]
"""Steps at which the command has been started."""
ENDED = STEPS[STEPS.index("exit-seen") :]
"""Steps that come with its end."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PoolServer]:
    made = PoolServer(tmp_path)
    made.begin()
    yield made
    made.end()


@pytest.mark.root
@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_job_still_runs_exactly_once_and_nothing_leaks(
    server: PoolServer, step: str
) -> None:
    ran, fifo = server.paths.root / "ran", server.paths.root / "fifo"
    os.mkfifo(fifo)
    agents = [AgentProcess(server, fault=step)]
    try:
        until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
        job = server.submit(f"echo $$ >> {ran}; read line < {fifo}; exit 9")["id"]
        if step in ENDED:
            fifo.write_text("end\n")  # waits for the command to read it
        assert agents[0].await_death() == signal.SIGKILL
        assert step in STARTED or not ran.exists()
        if step in STARTED and step not in ENDED:
            fifo.write_text("end\n")
            until(
                lambda: inspect_job(server.job_dir(job)).state is JobState.ENDED,
                "the command's own end",
            )
        agents.append(AgentProcess(server))
        if step not in STARTED:
            fifo.write_text("end\n")
        ended = server.until_state(job, "failed", "done", "lost", "stopped")
        assert (ended["state"], ended["exit_code"]) == ("failed", 9)
        until(lambda: not server.leftovers(), "nothing being left")
        assert len(ran.read_text().split()) == 1
        assert server.held_shares() == 0
    finally:
        for agent in agents:
            agent.end()


@pytest.mark.root
@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", STEPS[: STEPS.index("start-reported") + 1])
def test_a_stop_while_the_killed_agent_is_away_leaves_nothing_behind(
    server: PoolServer, step: str
) -> None:
    agents = [AgentProcess(server, fault=step)]
    try:
        until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
        job = server.submit("exec sleep 600")["id"]
        assert agents[0].await_death() == signal.SIGKILL
        server.stop(job)
        agents.append(AgentProcess(server))
        assert server.until_state(job, "failed", "done", "lost", "stopped")["state"] == "stopped"
        until(lambda: not server.leftovers(), "nothing being left")
        assert server.held_shares() == 0
    finally:
        for agent in agents:
            agent.end()


@pytest.mark.root
@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", RESIZE_STEPS)
@pytest.mark.parametrize("ends", [False, True])
def test_killed_in_the_middle_of_a_resize_the_next_agent_puts_it_in_force(
    server: PoolServer, step: str, ends: bool
) -> None:
    fifo = server.paths.root / "fifo"
    os.mkfifo(fifo)
    agents = [AgentProcess(server, fault=step)]
    try:
        until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
        job = server.submit(f"read line < {fifo}; exit 9")["id"]
        server.until_state(job, "running")
        assert server.resize(job, gpu_milli=400, memory_bytes=2 << 30)["changed"]
        assert agents[0].await_death() == signal.SIGKILL
        if ends:
            fifo.write_text("end\n")
            until(
                lambda: inspect_job(server.job_dir(job)).state is JobState.ENDED,
                "the command's own end",
            )
        agents.append(AgentProcess(server))
        if not ends:
            until(lambda: server.resize(job, gpu_milli=400)["applied"], "the resize being in force")
            (device,) = server.share_of(job)["devices"]
            assert (device["gpu_milli"], device["memory_bytes"]) == (400, 2 << 30)
            fifo.write_text("end\n")
        ended = server.until_state(job, "failed", "done", "lost", "stopped")
        assert (ended["state"], ended["exit_code"]) == ("failed", 9)
        until(lambda: not server.leftovers(), "nothing being left")
        assert server.held_shares() == 0
    finally:
        for agent in agents:
            agent.end()


@pytest.mark.root
def test_sigterm_ends_an_agent_and_leaves_its_jobs_running(server: PoolServer) -> None:
    agents = [AgentProcess(server)]
    try:
        until(lambda: server.node_is_ready("sim-0"), "the node's readiness")
        job = server.submit("exec sleep 600")["id"]
        server.until_state(job, "running")
        agents[0].process.send_signal(signal.SIGTERM)
        assert agents[0].process.wait(30) == 0
        assert inspect_job(server.job_dir(job)).state is JobState.RUNNING
        agents.append(AgentProcess(server))
        server.stop(job)
        server.until_state(job, "stopped")
    finally:
        for agent in agents:
            agent.end()


def test_a_fault_is_honoured_only_where_faults_are_allowed() -> None:
    assert make_step_hook({"GPUPOOL_FAULT": "prepared"}) is ignore_step
    assert make_step_hook({"GPUPOOL_FAULTS_ALLOWED": "1"}) is ignore_step
    armed = make_step_hook({"GPUPOOL_FAULT": "prepared", "GPUPOOL_FAULTS_ALLOWED": "1"})
    armed("spec-written")  # another step does nothing
    with pytest.raises(BadOption, match="no step"):
        make_step_hook({"GPUPOOL_FAULT": "nowhere", "GPUPOOL_FAULTS_ALLOWED": "1"})
