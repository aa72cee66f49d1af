"""A job with a fence is suspended while idle: its share is closed, and its first call wakes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpupool_native
from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.jobs.faults import ignore_step
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.jobs import Jobs
from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.agent.suspension.job_tree import JobTree
from gpupool.agent.suspension.record import locate_folder, read_record
from gpupool.mechanisms.arbiter import ArbiterProcess
from gpupool.mechanisms.fenced_files import is_share_closed
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.wire.fleet import ReportIn, RunAs, WorkOut, WorkSeat
from tests.support.supervised import until

(MACHINE,) = parse_sim("1xT4")
CARD = MACHINE.devices[0]
PROGRAM = Path(__file__).parents[3] / "support" / "idle_program.py"
KEY = "al-1"

pytestmark = pytest.mark.root


@dataclass
class Agent:
    """The jobs of an agent with one simulated card and an arbiter, and what it reported."""

    jobs: Jobs
    root: Path
    reports: list[ReportIn]
    machine: Path

    def has_report(self, state: str, generation: int) -> bool:
        return any((one.state, one.generation) == (state, generation) for one in self.reports)

    def want(self, want: str, generation: int) -> None:
        self.jobs.apply_work(make_work(self.root, want, generation))

    def measure(self) -> None:
        """As the observer does: what the job has done up to now is before its idle time."""
        self.jobs.idle_clock.measure("j-1", self.jobs.read_fence_usage()["j-1"])

    def ask_program(self) -> None:
        (self.root / "ask").touch()

    def count_ticks(self) -> int:
        path = self.root / "ticks"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def read_used(self) -> int:
        with SimulatedMachine(self.machine) as cards:
            return sum(use.memory_bytes for use in cards.list_processes(CARD.uuid))


def make_work(root: Path, want: str, generation: int) -> WorkOut:
    return WorkOut(
        allocation=KEY,
        generation=generation,
        job="j-1",
        job_name="notebook",
        want=want,  # type: ignore[arg-type]
        tenant="default",
        user="ann",
        sharing="fixed",
        seats=[WorkSeat(uuid=CARD.uuid, index=0, model="T4", gpu_milli=300, memory_bytes=1 << 30)],
        argv=[sys.executable, str(PROGRAM), "64", str(root / "ticks"), str(root / "ask")],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        umask=0o22,
        limits={},
        run_as=RunAs(uid=0, gid=0, groups=[], name="root"),
        attached=False,
        max_seconds=None,
        started=generation > 1,
        only_idle=want == "suspend",
    )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    machine = tmp_path / "cards" / "node"
    machine.mkdir(parents=True)
    create_machine(machine / "machine", MACHINE)
    reports: list[ReportIn] = []
    arbiter = ArbiterProcess(gpupool_native.arbiter_path(), lambda: 0.5)
    context = JobContext(
        JobDirectories(tmp_path / "jobs", shared=True),
        tmp_path,
        LaunchSettings("p-test", os.getuid(), os.getgid()),
        reports.append,
        lambda job: (),
        ignore_step,
        lambda: None,
        probes={"node": SimulatedProbe(MACHINE, machine_file=machine / "machine")},
        nodes={"node": MACHINE.devices},
        arbiter=arbiter,
    )
    made = Jobs(context)
    made.start()
    agent = Agent(made, tmp_path, reports, machine / "machine")
    agent.want("run", 1)
    until(lambda: agent.count_ticks() == 1, "the program's first look at its memory")
    agent.measure()
    yield agent
    made.end_unlisted_jobs(())
    until(lambda: any(one.state == "ended" for one in reports), "the end")
    made.close()
    made.join(10)
    arbiter.close()
    arbiter.join(10)
    assert "lost" not in (tmp_path / "ticks").read_text().splitlines()


def test_its_programs_run_on_and_their_first_call_wakes_it(agent: Agent) -> None:
    agent.want("suspend", 2)
    until(lambda: agent.has_report("suspended", 2), "the suspend")
    assert agent.read_used() == 0
    assert is_share_closed(KEY, agent.root)
    (supervisor,) = agent.jobs.list_supervisors().values()
    assert not JobTree(supervisor, lambda _: None).is_stopped()
    assert not agent.has_report("woken", 2)
    agent.ask_program()
    until(lambda: agent.has_report("woken", 2), "the wake")
    assert agent.count_ticks() == 1
    agent.want("resume", 3)
    until(lambda: agent.has_report("resumed", 3), "the resume")
    until(lambda: agent.count_ticks() == 2, "the look for which it woke")
    assert not is_share_closed(KEY, agent.root)
    assert read_record(locate_folder(agent.root, KEY)) is None


def test_a_job_that_has_worked_since_is_not_suspended(agent: Agent) -> None:
    agent.ask_program()
    until(lambda: agent.count_ticks() == 2, "more work")
    agent.want("suspend", 2)
    until(lambda: agent.has_report("resumed", 2), "the refusal")
    assert agent.reports[-1].reason == "it works on its cards again"
    assert not is_share_closed(KEY, agent.root)
    assert read_record(locate_folder(agent.root, KEY)) is None


def test_a_program_that_waits_can_be_stopped(agent: Agent) -> None:
    agent.want("suspend", 2)
    until(lambda: agent.has_report("suspended", 2), "the suspend")
    agent.ask_program()
    until(lambda: agent.has_report("woken", 2), "the wake")
    agent.want("stop", 3)
    until(lambda: any(one.state == "ended" for one in agent.reports), "the end")
