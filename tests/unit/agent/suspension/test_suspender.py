"""A running job is suspended and resumed by its agent: real supervisor, program, driver and card."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.jobs.faults import ignore_step
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.jobs import Jobs
from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.agent.suspension import suspender
from gpupool.agent.suspension.job_tree import JobTree
from gpupool.agent.suspension.record import locate_folder, read_record
from gpupool.agent.suspension.suspender import has_other_step
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.slow_step import await_slow_step, run_slow_step
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.wire.fleet import ReportIn, RunAs, WorkOut, WorkSeat
from gpupool_native import simgpu_dir
from tests.support.supervised import until
from tests.unit.native.simgpu_cuda import environment

(MACHINE,) = parse_sim("1xT4")
CARD = MACHINE.devices[0]
PROGRAM = Path(__file__).parents[3] / "support" / "holding_program.py"
MIB = 1 << 20


@dataclass
class Agent:
    """The jobs of an agent with one simulated card, and what it reported."""

    jobs: Jobs
    root: Path
    reports: list[ReportIn]

    def find_report(self, state: str, generation: int) -> ReportIn | None:
        found = (one for one in self.reports if (one.state, one.generation) == (state, generation))
        return next(found, None)

    def want(self, want: str, generation: int) -> None:
        self.jobs.apply_work(make_work(self.root, want, generation))

    def count_ticks(self) -> int:
        path = self.root / "ticks"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def build_tree(self) -> JobTree:
        (pid,) = self.jobs.list_supervisors().values()
        return JobTree(pid, lambda _: None)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    machine = tmp_path / "cards" / "node"
    machine.mkdir(parents=True)
    create_machine(machine / "machine", MACHINE)
    reports: list[ReportIn] = []
    context = JobContext(
        JobDirectories(tmp_path / "jobs", shared=False),
        tmp_path,
        LaunchSettings("p-test", os.getuid(), os.getgid()),
        reports.append,
        lambda job: (),
        ignore_step,
        lambda: None,
        probes={"node": SimulatedProbe(MACHINE, machine_file=machine / "machine")},
        nodes={"node": MACHINE.devices},
    )
    made = Jobs(context)
    made.start()
    agent = Agent(made, tmp_path, reports)
    agent.want("run", 1)
    until(lambda: agent.count_ticks() > 0, "the program's first look at its memory")
    yield agent
    made.end_unlisted_jobs(())
    until(lambda: any(one.state == "ended" for one in reports), "the end")
    made.close()
    made.join(10)
    lines = (tmp_path / "ticks").read_text().splitlines()
    assert "lost" not in lines


def make_work(root: Path, want: str, generation: int) -> WorkOut:
    account = RunAs(uid=os.getuid(), gid=os.getgid(), groups=[], name="me")
    return WorkOut(
        allocation="al-1",
        generation=generation,
        job="j-1",
        job_name="train",
        want=want,  # type: ignore[arg-type]
        tenant="default",
        user="ann",
        sharing="fixed",
        fence=False,
        seats=[WorkSeat(uuid=CARD.uuid, index=0, model="T4", gpu_milli=300, memory_bytes=1 << 30)],
        argv=[sys.executable, str(PROGRAM), "64", str(root / "ticks")],
        cwd="/",
        env={
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": str(simgpu_dir()),
            "GPUPOOL_SIMGPU": str(root / "cards" / "node" / "machine"),
        },
        umask=0o22,
        limits={},
        run_as=account,
        attached=False,
        max_seconds=None,
        started=generation > 1,
    )


def test_a_job_is_suspended_reported_and_resumed(agent: Agent) -> None:
    agent.want("suspend", 2)
    report = until(lambda: agent.find_report("suspended", 2), "the suspend")
    assert (report.reason, report.gpu_memory_bytes) == ("", 64 * MIB + 120 * MIB)
    assert agent.build_tree().is_stopped()
    # The server asks again under the generation of the emptied seats.
    agent.want("suspend", 3)
    until(lambda: agent.find_report("suspended", 3), "the repeated report")
    before = agent.count_ticks()
    agent.want("resume", 4)
    assert until(lambda: agent.find_report("resumed", 4), "the resume").reason == ""
    until(lambda: agent.count_ticks() > before, "a further look")
    assert read_record(locate_folder(agent.root, "al-1")) is None
    # What is not suspended is resumed at once.
    agent.want("resume", 5)
    until(lambda: agent.find_report("resumed", 5), "the answer")


def test_a_job_that_is_continued_by_hand_is_suspended_again(agent: Agent) -> None:
    agent.want("suspend", 2)
    until(lambda: agent.find_report("suspended", 2), "the suspend")
    for process in agent.build_tree().list_all():
        os.kill(process.pid, signal.SIGCONT)
    until(lambda: not agent.build_tree().is_stopped(), "a process that goes on")
    agent.jobs.retry_unfinished()
    until(agent.build_tree().is_stopped, "the second suspend")


def test_a_suspend_that_was_answered_is_not_begun_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server asks again until it has the answer; a second try could end otherwise."""
    monkeypatch.setattr(suspender, "measure_host_room", lambda groups: 0)
    for _ in range(5):
        agent.want("suspend", 2)
    until(lambda: agent.find_report("resumed", 2), "the refusal")
    monkeypatch.undo()
    agent.want("suspend", 2)
    agent.jobs.retry_unfinished()
    before = agent.count_ticks()
    until(lambda: agent.count_ticks() > before + 20, "a job that runs on")
    assert agent.find_report("suspended", 2) is None


def test_a_job_that_is_stopped_already_is_refused(agent: Agent) -> None:
    """A resume would let a job go on that its fence has frozen."""
    agent.build_tree().stop()
    agent.want("suspend", 2)
    report = until(lambda: agent.find_report("resumed", 2), "the refusal")
    assert report.reason == "its processes are stopped already, by its fence or by hand"
    assert agent.build_tree().is_stopped()
    agent.build_tree().go_on()


def test_memory_that_is_brought_back_by_hand_is_found_although_all_is_stopped(
    agent: Agent,
) -> None:
    agent.want("suspend", 2)
    until(lambda: agent.find_report("suspended", 2), "the suspend")
    (process,) = agent.build_tree().list_all()
    calls = f"""
from tests.unit.native.simgpu_cuda import Cuda
cu = Cuda()
cu("Init", 0)
cu("CheckpointProcessRestore", {process.pid}, None)
"""
    machine = agent.root / "cards" / "node" / "machine"
    subprocess.run([sys.executable, "-c", calls], env=environment(machine), check=True)
    with SimulatedMachine(machine) as cards:
        assert cards.list_processes(CARD.uuid)[0].memory_bytes
        agent.jobs.retry_unfinished()
        until(lambda: not cards.list_processes(CARD.uuid)[0].memory_bytes, "the second suspend")
    until(agent.build_tree().is_stopped, "the stop")


def test_too_little_main_memory_is_reported_and_the_job_runs_on(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspender, "measure_host_room", lambda groups: 100 * MIB)
    agent.want("suspend", 2)
    report = until(lambda: agent.find_report("resumed", 2), "the refusal")
    assert "its 184 MiB of card memory need as much main memory" in report.reason
    assert "100 MiB more" in report.reason
    before = agent.count_ticks()
    until(lambda: agent.count_ticks() > before, "a further look")


def test_a_step_of_an_earlier_wish_is_waited_for(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.01; done"
    answer = run_slow_step(tmp_path, "suspend-7", ["sh", "-c", script], "it waits")
    assert isinstance(answer, NotYet)
    assert not has_other_step(tmp_path, "suspend-7")
    assert has_other_step(tmp_path, "resume-8")
    go.touch()
    await_slow_step(tmp_path, "suspend-7")
    until(lambda: not has_other_step(tmp_path, "resume-8"), "the end of the earlier step")
    assert not list(tmp_path.glob("step-suspend-7.*"))
