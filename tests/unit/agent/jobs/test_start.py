"""A start waits for a slow step without a thread, says so once, and runs with helpers and layers."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from gpupool.agent.jobs import (
    job_context,
    mechanism_selection,
    unknown_preparations,
    worker_pool,
)
from gpupool.agent.jobs.checkpoint import JobDirectories
from gpupool.agent.jobs.faults import ignore_step
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.jobs import Jobs
from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.agent.supervisor.client import JobState, inspect_job, log_end
from gpupool.base.errors import ProbeSuspended, RequestRejection
from gpupool.mechanisms import preparation
from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    FenceLevel,
    HelperProcess,
    NotYet,
    PreparedAllocation,
)
from gpupool.mechanisms.share import CountedShare
from gpupool.probes.nvml.gate import GATE
from gpupool.probes.simulated import parse_sim
from gpupool.wire.fleet import ReportIn, RunAs, WorkOut, WorkSeat
from tests.support.supervised import until

(MACHINE,) = parse_sim("1xL40S")
CARD = MACHINE.devices[0]
HELPER = HelperProcess("daemon-0", ("/bin/sleep", "1000"))


class SlowMechanism(CountedShare):
    """Answers `NotYet` until `ready`; so many times the driver is closed before that."""

    ready = False
    suspensions = 0

    def explain_refusal(self, view: AllocationView) -> str:
        return ""

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        if self.suspensions:
            self.suspensions -= 1
            raise ProbeSuspended("card 1 is reset")
        if not self.ready:
            return NotYet("the card is being cut", 0.01)
        prepared = super().prepare(view, state_dir)
        return (
            replace(prepared, helpers=(HELPER,)) if not isinstance(prepared, NotYet) else prepared
        )


@dataclass
class NotingLayer:
    """Adds a variable to the job, and writes down which verbs were called."""

    name: str = "noting"
    verbs: list[str] = field(default_factory=list)

    def explain_absence(self, view: AllocationView) -> str:
        return ""

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation | NotYet:
        self.verbs.append("prepare")
        return replace(prepared, env={**prepared.env, "LAYER": "on"})

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        return "prepare" in self.verbs and "unprepare" not in self.verbs

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        self.verbs.append("resize")

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        self.verbs.append("unprepare")

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        return replace(levels, memory=FenceLevel.HARD)


@dataclass
class Agent:
    """The jobs of an agent with one slow mechanism, and what it reported."""

    jobs: Jobs
    mechanism: SlowMechanism
    layer: NotingLayer
    root: Path
    reports: list[ReportIn]

    def list_states(self) -> list[str]:
        return [report.notice or report.state for report in self.reports]

    def find_report(self, state: str) -> ReportIn | None:
        return next((one for one in self.reports if one.state == state), None)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    mechanism = SlowMechanism()
    layer = NotingLayer()
    known = MappingProxyType({mechanism.name: mechanism})
    monkeypatch.setattr(job_context, "MECHANISMS", known)
    monkeypatch.setattr(unknown_preparations, "MECHANISMS", known)
    monkeypatch.setattr(mechanism_selection, "choose_mechanism", lambda view: mechanism)
    monkeypatch.setattr(preparation, "LAYERS", (layer,))
    reports: list[ReportIn] = []
    context = JobContext(
        JobDirectories(tmp_path / "jobs", shared=False),
        tmp_path,
        LaunchSettings("p-test", os.getuid(), os.getgid()),
        reports.append,
        lambda job: (),
        ignore_step,
        lambda: None,
        nodes={"node": MACHINE.devices},
    )
    made = Jobs(context)
    made.start()
    yield Agent(made, mechanism, layer, tmp_path, reports)
    made.end_unlisted_jobs(())
    until(lambda: not context.helpers.list_names(), "the end of the helpers")
    made.close()
    made.join(10)


def make_work(argv: list[str], want: str = "run", generation: int = 1) -> WorkOut:
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
        seats=[
            WorkSeat(uuid=CARD.uuid, index=0, model="L40S", gpu_milli=300, memory_bytes=1 << 30)
        ],
        argv=argv,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        umask=0o22,
        limits={},
        run_as=account,
        attached=False,
        max_seconds=None,
        started=False,
    )


def test_a_start_waits_for_a_slow_step_and_reports_it_once(agent: Agent) -> None:
    agent.jobs.apply_work(make_work(["sh", "-c", 'test "$LAYER" = on']))
    until(lambda: agent.find_report("noticed"), "the notice")
    # A heartbeat in the meantime must not take the job for one that could not start.
    agent.jobs.retry_unfinished()
    agent.mechanism.ready = True
    end = until(lambda: agent.find_report("ended"), "the end")
    assert end.exit_code == 0, end.reason
    assert agent.list_states().count("preparing") == 1
    notice = agent.find_report("noticed")
    assert notice is not None
    assert notice.reason == "the card is being cut"


def test_a_start_waits_while_the_driver_of_its_card_is_closed(agent: Agent) -> None:
    agent.mechanism.ready = True
    agent.jobs.set_devices({"node": (replace(CARD, simulated=False),)})
    over = threading.Event()
    with GATE.suspend("a switch", "card 1 is reset", over.is_set):
        pass
    agent.jobs.apply_work(make_work(["true"]))
    notice = until(lambda: agent.find_report("noticed"), "the notice")
    assert notice.reason == "card 1 is reset"
    assert agent.layer.verbs == []
    over.set()
    end = until(lambda: agent.find_report("ended"), "the end")
    assert end.exit_code == 0, end.reason


def test_a_driver_that_is_closed_in_the_middle_of_a_start_is_waited_for(agent: Agent) -> None:
    agent.mechanism.suspensions = 2
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work(["true"]))
    end = until(lambda: agent.find_report("ended"), "the end")
    assert end.exit_code == 0, end.reason
    assert agent.mechanism.suspensions == 0
    notice = agent.find_report("noticed")
    assert notice is not None
    assert notice.reason == "card 1 is reset"


def test_a_job_reports_its_mechanism_and_the_level_of_each_dimension(agent: Agent) -> None:
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work(["sleep", "1000"]))
    report = until(lambda: agent.find_report("running"), "the start")
    assert report.mechanism == "share"
    assert report.holds == {
        "memory": "hard",
        "compute": "none",
        "bandwidth": "none",
        "fault": "none",
    }
    agent.jobs.apply_work(make_work(["sleep", "1000"], "resize", 2))
    until(lambda: agent.find_report("resized"), "the other size")
    agent.jobs.apply_work(make_work(["sleep", "1000"], "stop", 2))
    until(lambda: agent.find_report("ended"), "the end")
    assert agent.layer.verbs == ["prepare", "resize", "unprepare"]


def test_a_helper_runs_as_long_as_its_job(agent: Agent) -> None:
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work(["sleep", "1000"]))
    until(lambda: agent.find_report("running"), "the start")
    directory = agent.root / "helpers/daemon-0"
    assert inspect_job(directory).state is JobState.RUNNING
    agent.jobs.apply_work(make_work(["sleep", "1000"], "stop"))
    until(lambda: agent.find_report("ended"), "the end")
    assert not directory.exists()


def test_a_stop_ends_a_job_whose_card_is_still_being_set_up(agent: Agent) -> None:
    agent.jobs.apply_work(make_work(["true"]))
    until(lambda: agent.find_report("noticed"), "the notice")
    agent.jobs.apply_work(make_work(["true"], "stop"))
    end = until(lambda: agent.find_report("not_started"), "the end")
    assert end.reason == "stopped before it started"
    agent.mechanism.ready = True
    assert agent.list_states() == ["preparing", "not_started"]


def test_a_heartbeat_in_the_first_step_of_a_start_ends_no_job(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = threading.Event()
    over = threading.Event()
    prepare = agent.mechanism.prepare

    def prepare_slowly(view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        entered.set()
        over.wait(30)
        return prepare(view, state_dir)

    monkeypatch.setattr(agent.mechanism, "prepare", prepare_slowly)
    agent.jobs.apply_work(make_work(["true"]))
    assert entered.wait(30)
    agent.jobs.retry_unfinished()
    over.set()
    until(lambda: agent.find_report("noticed"), "the notice")
    agent.mechanism.ready = True
    end = until(lambda: agent.find_report("ended") or agent.find_report("not_started"), "the end")
    assert (end.state, end.exit_code) == ("ended", 0), end.reason


def test_a_refused_start_whose_card_stays_set_up_is_ended_by_a_heartbeat(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "RETRY_SECONDS", 0.001)
    failures = list[str]()

    def refuse(view: AllocationView, state_dir: Path) -> PreparedAllocation:
        raise RequestRejection("the card cannot be cut", hint="")

    def keep_card(allocation: str, generation: int, state_dir: Path) -> None:
        failures.append(allocation)
        if len(failures) < 8:
            raise OSError(errno.EBUSY, "the card is in use")

    monkeypatch.setattr(agent.mechanism, "unprepare", keep_card)
    agent.jobs.apply_work(make_work(["true"]))
    until(lambda: agent.find_report("noticed"), "the notice")
    monkeypatch.setattr(agent.mechanism, "prepare", refuse)

    def beat() -> ReportIn | None:
        agent.jobs.retry_unfinished()
        return agent.find_report("ended")

    end = until(beat, "the end")
    assert end.reason == "the card cannot be cut"


def test_a_directory_that_cannot_be_finished_holds_up_no_other_report(agent: Agent) -> None:
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work(["true"]))
    end = until(lambda: agent.find_report("ended"), "the end")
    directory = agent.root / "jobs/j-1"
    # Nothing unlinks a directory, for root neither.
    (directory / "spec.tmp").mkdir()
    agent.jobs.confirm_report(end, is_stale=False)
    assert (directory / "allocation.json").exists()
    (directory / "spec.tmp").rmdir()
    agent.jobs.retry_unfinished()
    until(lambda: not agent.jobs.list_job_ids(), "the end of the record")
    assert not (directory / "allocation.json").exists()


def test_a_job_whose_checkpoint_is_damaged_has_ended_before_it_is_lost(agent: Agent) -> None:
    """Before, its cards were given to another job while it still had its grace."""
    agent.mechanism.ready = True
    patient = 'trap "sleep 0.3; exit 0" TERM; echo ready; while :; do sleep 0.01; done'
    agent.jobs.apply_work(make_work(["sh", "-c", patient]))
    until(lambda: agent.find_report("running"), "the start")
    directory = agent.root / "jobs/j-1"
    until(lambda: log_end(directory), "its trap")
    agent.jobs.close()
    agent.jobs.join(10)
    (directory / "allocation.json").write_text("{")
    next_one = Jobs(agent.jobs._context)
    next_one.start()
    try:
        next_one.recover_jobs()
        assert inspect_job(directory).state is JobState.ENDED
        assert not (directory / "allocation.json").exists()
    finally:
        next_one.close()
        next_one.join(10)


@pytest.mark.parametrize("command", ["/" + "ä" * 200, "/x" + "ä" * 200])
def test_a_job_whose_long_command_is_cut_in_a_letter_ends(agent: Agent, command: str) -> None:
    """Before, half a letter in the supervisor's message could not be reported: it kept its card."""
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work([command]))
    end = until(lambda: agent.find_report("ended"), "the end")
    assert end.exit_code == 127 or "too long" in end.reason
    assert end.model_dump_json()


def test_an_end_whose_log_cannot_be_measured_is_reported_later(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, it was not reported until the agent started again."""
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work(["sleep", "1000"]))
    until(lambda: agent.find_report("running"), "the start")
    unreadable = agent.root / "jobs/j-1" / f"log.{'9' * 16}"
    unreadable.symlink_to("missing")
    agent.jobs.apply_work(make_work(["sleep", "1000"], "stop"))
    until(lambda: "No such file" in caplog.text, "the failure")
    unreadable.unlink()

    def beat() -> ReportIn | None:
        agent.jobs.retry_unfinished()
        return agent.find_report("ended")

    assert until(beat, "the end").signal == signal.SIGTERM


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_a_name_of_a_command_writes_no_line_of_its_record(agent: Agent, mark: str) -> None:
    """Before, it could state another end, or stop the agent by a number that is none."""
    agent.mechanism.ready = True
    agent.jobs.apply_work(make_work([f"/none{mark}exit_code=0{mark}state=ended{mark}user_us=none"]))
    end = until(lambda: agent.find_report("ended"), "the end")
    assert end.exit_code == 127
    record = inspect_job(agent.root / "jobs/j-1").exit
    assert record is not None
    assert record.state == "failed_to_start"
