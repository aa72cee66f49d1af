"""All processes of a job are moved, or none, also where steps are killed at any line.

Real programs on a simulated card, moved by the agent's own step.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.suspension.step import RESUME, SUSPEND
from gpupool.mechanisms.suspend.move_notes import FILE
from tests.support.suspended_jobs import SuspendedJob, run_kills
from tests.unit.native.simgpu_cuda import environment, program


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SuspendedJob]:
    with SuspendedJob(tmp_path) as job:
        yield job


def test_a_job_is_off_its_card_and_back_with_its_contents(job: SuspendedJob) -> None:
    before = job.read_used()
    outcome = job.move(SUSPEND)
    assert (outcome.state, outcome.processes, outcome.reason) == ("suspended", 2, "")
    assert (job.read_used(), job.count_stopped()) == (0, 2)
    assert job.move(SUSPEND).state == "suspended"
    outcome = job.move(RESUME)
    assert (outcome.state, outcome.processes, outcome.reason) == ("running", 2, "")
    assert job.read_used() == before
    assert job.are_contents_intact()
    assert not (job.folder / FILE).exists()


def test_kills_at_any_line_lose_nothing(job: SuspendedJob) -> None:
    tally = run_kills(job, 10, random.Random(5))
    assert (tally.kills, tally.lost, tally.stuck) == (10, 0, 0)


def test_a_resume_without_room_leaves_all_processes_suspended(job: SuspendedJob) -> None:
    job.move(SUSPEND)
    other = (
        "cu.start()\ncu.alloc(cu.memory()[0] - 100 * MIB)\nprint('r', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        program(other),
        env=environment(job.machine),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as neighbour:
        assert neighbour.stdout
        assert neighbour.stdout.readline()
        taken = job.read_used()
        outcome = job.move(RESUME)
        assert outcome.state == "suspended"
        assert "too little memory left" in outcome.reason
        assert (job.read_used(), job.count_stopped()) == (taken, 2)
        neighbour.kill()
    assert job.move(RESUME).state == "running"
    assert job.are_contents_intact()


def test_a_process_that_another_program_locked_is_left_alone(job: SuspendedJob) -> None:
    pid = min(int(name) for name in os.listdir("/proc") if name.isdigit() and _is_in(name, job))
    call = f'cu("Init", 0)\ncu("CheckpointProcessLock", {pid}, None)'
    subprocess.run(program(call), env=environment(job.machine), check=True)
    before = job.read_used()
    outcome = job.move(SUSPEND)
    assert (outcome.state, outcome.reason) == (
        "running",
        f"process {pid} was locked by another program",
    )
    assert job.read_used() == before
    unlock = f'cu("Init", 0)\ncu("CheckpointProcessUnlock", {pid}, None)'
    subprocess.run(program(unlock), env=environment(job.machine), check=True)
    assert job.are_contents_intact()


def test_a_process_that_ends_while_it_is_suspended_is_no_obstacle(job: SuspendedJob) -> None:
    job.move(SUSPEND)
    pid = min(int(name) for name in os.listdir("/proc") if name.isdigit() and _is_in(name, job))
    os.kill(pid, signal.SIGKILL)
    job.move(SUSPEND)
    outcome = job.move(RESUME)
    assert (outcome.state, outcome.processes) == ("running", 1)


def _is_in(pid: str, job: SuspendedJob) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return int(stat.rpartition(")")[2].split()[1]) == job.process.pid and "Z" not in stat
