"""The agent's looks at fenced jobs: real files and processes; the card is played, and says what the
test says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import pytest

from gpupool.agent.monitoring.usage import read_processes, sum_process_trees
from gpupool.agent.supervisor.freeze import freeze_job, stop_processes
from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.fence_auditor import BUSY_SECONDS, IN_TURN, QUIET_SECONDS, FenceAuditor
from gpupool.audit.findings import AuditFinding
from gpupool.audit.granted_time import Granted, GrantedTimeCheck
from gpupool.audit.mapping_check import FencedJob
from gpupool.audit.reactions import FindingReactions
from gpupool.base.errors import BadMachine
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.contract import AllocationView, GrantedDevice, JobSeat
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.regions import CDeviceLimit, CLimits
from gpupool.model.device import DeviceProcess, DeviceUsage
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from tests.support.supervised import until

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)

(MACHINE,) = parse_sim("1xL40S")
CARD = MACHINE.devices[0]
MIB = 1 << 20


class Card(SimulatedProbe):
    """A card that says that these processes have so much of it."""

    def __init__(self) -> None:
        super().__init__(MACHINE)
        self.on_card: dict[int, int] = {}
        self.ill = ""
        self.glimpses: list[dict[int, int]] = []
        """What it says once each, before that."""
        self.looks = 0

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        self.looks += 1
        if self.ill:
            raise BadMachine(self.ill)
        here = self.glimpses.pop(0) if self.glimpses else self.on_card
        return {
            CARD.uuid: DeviceUsage(
                processes=tuple(DeviceProcess(pid, None, None, n) for pid, n in here.items())
            )
        }


class Looked:
    """A auditor over one fenced allocation whose supervisor is a process with children."""

    def __init__(self, state_dir: Path, reaction: str) -> None:
        self.state_dir, self.card = state_dir, Card()
        self.told: list[tuple[str, str]] = []
        self.killed: list[str] = []
        self.jobs: list[FencedJob] = []
        seat = JobSeat(uid=os.getuid(), gid=os.getgid())
        granted = (GrantedDevice(CARD, 300, 1000 * MIB, 0),)
        view = AllocationView(
            "p", "al-1", 1, "job-1", "t", "fixed", granted, MACHINE.devices, seat, machine=state_dir
        )
        self.share = FenceMechanism().prepare(view, state_dir).share_dir
        self.supervisor = subprocess.Popen(
            ["sh", "-c", "sleep 600 & sleep 600 & echo; wait"],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.supervisor.stdout is not None
        self.supervisor.stdout.readline()
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.supervisor.pid)],
            capture_output=True,
            check=True,
        )
        self.pids = [int(word) for word in listed.stdout.split()]
        self.auditor = self.make_auditor(self.card, reaction)

    def make_auditor(
        self,
        card: Card,
        reaction: str,
        granted: Granted = lambda: None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> FenceAuditor:
        made = FenceAuditor(
            CardProcesses({MACHINE.name: card}),
            FindingReactions(
                reaction,
                self.tell,
                lambda one, reason: self.killed.append(reason),
                lambda one: freeze_job(one.supervisor_pid, [card]),
            ),
            GrantedTimeCheck(granted, now_ns),
            fenced=lambda: self.jobs,
            state_dir=self.state_dir,
            base="/nowhere",
        )
        made.update_machines({MACHINE.name: MACHINE})
        return made

    def tell(self, one: FencedJob, finding: AuditFinding, reaction: str) -> None:
        self.told.append((finding.kind, reaction))

    def begin(self) -> None:
        self.jobs = [FencedJob("job-1", "al-1", self.supervisor.pid, mounted=False)]

    def end(self) -> None:
        os.killpg(self.supervisor.pid, 9)
        self.supervisor.communicate()


@pytest.fixture
def looked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Looked]:
    made = Looked(tmp_path, getattr(request, "param", "warn"))
    yield made
    made.end()


def test_a_finding_is_told_once_while_it_lasts_and_again_when_it_comes_back(looked: Looked) -> None:
    looked.begin()
    looked.card.on_card = {looked.pids[0]: 10 * MIB}
    for _ in range(3):
        looked.auditor.compare_jobs()
    assert looked.told == [("unregistered", "warn")]
    looked.card.on_card = {}
    looked.auditor.compare_jobs()
    looked.card.on_card = {looked.pids[0]: 10 * MIB}
    looked.auditor.compare_jobs()
    assert looked.told == [("unregistered", "warn")] * 2
    assert looked.killed == []


def test_processes_of_others_and_the_dead_are_nobodys_business(looked: Looked) -> None:
    looked.begin()
    looked.card.on_card = {os.getpid(): 5000 * MIB, 2**22 + 1: 5000 * MIB}
    looked.auditor.compare_jobs()
    assert looked.told == []


@pytest.mark.parametrize("looked", ["kill"], indirect=True)
def test_what_only_one_look_of_several_saw_is_neither_told_nor_charged_nor_answered(
    looked: Looked,
) -> None:
    """Memory that a program takes and gives back between two readings of its ledger."""
    looked.begin()
    looked.card.glimpses = [{looked.pids[0]: 2000 * MIB}]
    looked.auditor.compare_jobs()
    assert looked.card.glimpses == []
    assert (looked.told, looked.killed) == ([], [])
    limits = (looked.share / "limits").read_bytes()
    at = CLimits.device.offset + CDeviceLimit.overhead_bytes.offset
    assert limits[at : at + 8] == bytes(8)


@pytest.mark.parametrize("looked", ["kill"], indirect=True)
def test_who_is_told_to_kill_does(looked: Looked) -> None:
    looked.begin()
    looked.card.on_card = {looked.pids[1]: 2000 * MIB}
    looked.auditor.compare_jobs()
    assert sorted(looked.told) == [("over", "kill"), ("unregistered", "kill")]
    assert len(looked.killed) == 1
    assert "past the fence" in looked.killed[0]


@pytest.mark.parametrize("looked", ["freeze"], indirect=True)
def test_who_is_told_to_freeze_stops_every_process_below_the_supervisor_and_not_itself(
    looked: Looked,
) -> None:
    looked.begin()
    looked.card.on_card = {looked.pids[1]: 2000 * MIB}
    looked.auditor.compare_jobs()
    until(lambda: all(state_of(pid) == "T" for pid in looked.pids), "the stop of both")
    assert state_of(looked.supervisor.pid) != "T"


def test_a_family_that_forks_meanwhile_is_stopped_whole() -> None:
    script = (
        "import os, time\nfor _ in range(60):\n    os.fork() or time.sleep(600)\ntime.sleep(600)"
    )
    words = ["sh", "-c", '"$@" & wait', "sh", sys.executable, "-c", script]
    with subprocess.Popen(words, start_new_session=True) as top:
        try:
            until(lambda: below(top.pid), "the first child")
            assert stop_processes(top.pid)
            until(lambda: {state_of(pid) for pid in below(top.pid)} == {"T"}, "the stop of all")
            assert state_of(top.pid) != "T"
        finally:
            os.killpg(top.pid, 9)


def below(pid: int) -> frozenset[int]:
    return sum_process_trees(read_processes(), [pid])[pid].pids


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("limits", b"", "limits"),
        ("limits", None, "limits"),
        ("grants", b"", "grants"),
        ("grants", b"GPPGRNT2" + bytes(4088), "grants"),
        ("../usage/region", b"", "region"),
    ],
)
def test_files_that_were_changed_are_found(
    looked: Looked, name: str, content: bytes | None, kind: str
) -> None:
    looked.begin()
    path = looked.share / name
    if content is None:  # a page that reads well and says more
        page = bytearray(path.read_bytes())
        page[512 + 16 : 512 + 24] = (40 << 30).to_bytes(8, "little")
        content = bytes(page)
    path.write_bytes(content)
    looked.auditor.compare_jobs()
    assert looked.told == [(kind, "warn")]


@pytest.mark.parametrize("looked", ["kill"], indirect=True)
def test_cards_that_cannot_be_asked_are_told_once_and_nobody_is_ended_for_it(
    looked: Looked,
) -> None:
    looked.begin()
    looked.card.ill = "its file is damaged"
    for _ in range(3):
        looked.auditor.compare_jobs()
    assert (looked.told, looked.killed) == ([("unseen", "warn")], [])
    (looked.share / "grants").write_bytes(b"")  # what lies in files is seen all the same
    looked.auditor.compare_jobs()
    assert looked.told[1:] == [("grants", "kill")]
    looked.card.ill = ""
    looked.card.on_card = {looked.pids[0]: 10 * MIB}
    looked.auditor.compare_jobs()
    assert looked.told[2:] == [("unregistered", "kill")]


def test_what_the_ledger_does_not_know_is_a_figure(looked: Looked) -> None:
    looked.begin()
    assert looked.auditor.find_unaccounted("al-1") is None
    looked.card.on_card = {looked.pids[0]: 10 * MIB}
    looked.auditor.compare_jobs()
    assert looked.auditor.find_unaccounted("al-1") == {CARD.uuid: {looked.pids[0]: 10 * MIB}}
    looked.jobs = []
    looked.auditor.compare_jobs()
    assert looked.auditor.find_unaccounted("al-1") is None


def test_among_many_jobs_the_one_on_the_card_is_found_at_once_and_the_others_in_turn(
    looked: Looked,
) -> None:
    looked.begin()
    (mine,) = looked.jobs
    others = [FencedJob(f"job-{n}", f"al-other-{n}", 2**22 + n) for n in range(2, 3 * IN_TURN)]
    looked.jobs = [*others, mine]
    looked.card.on_card = {looked.pids[0]: 10 * MIB}
    looked.auditor.compare_jobs()
    assert looked.told == [("unregistered", "warn")]
    looked.card.on_card = {}
    looked.auditor.compare_jobs()
    (looked.share / "limits").write_bytes(b"")
    for _ in range(4):
        looked.auditor.compare_jobs()
    assert looked.told[1:] == [("limits", "warn")]


def test_it_sleeps_while_nothing_is_fenced_and_looks_within_a_second_when_something_is(
    looked: Looked,
) -> None:
    assert BUSY_SECONDS < QUIET_SECONDS < 1
    looked.auditor.start()
    try:
        assert not threading.Event().wait(2 * QUIET_SECONDS)
        assert looked.card.looks == 0
        looked.card.on_card = {looked.pids[0]: 10 * MIB}
        looked.begin()
        looked.auditor.wake_up()
        until(lambda: looked.told, "the first finding")
    finally:
        looked.auditor.close()
        looked.auditor.join(10)


class Granting(Card):
    """A card that also says how much time each process had."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[int, int] = {}

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        return {CARD.uuid: dict(self.times)}


@pytest.mark.parametrize("looked", ["kill"], indirect=True)
@pytest.mark.parametrize(
    ("owns_ms", "expected"), [(0, ["time"]), (-100_000, [])], ids=["unknown", "known-debt"]
)
def test_time_beyond_what_the_arbiter_granted_is_a_finding(
    looked: Looked, owns_ms: int, expected: list[str]
) -> None:
    card, pid, now = Granting(), looked.pids[0], [0]
    said = (1, (ShareStatus("al-1", 0, owns_ms * 10**6),))
    auditor = looked.make_auditor(card, "kill", lambda: said, lambda: now[0])
    looked.begin()
    card.on_card = {pid: 0}
    for look in range(12):
        now[0] = (1 + look * 400) * 10**6
        card.times = {pid: look * 400 * 10**6}
        auditor.compare_jobs()
    kinds = [kind for kind, _ in looked.told if kind != "unregistered"]
    assert kinds == expected


FORGED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    page = mmap.mmap(file.fileno(), 0, prot=1)
print(1, flush=True)
input()
"""


def test_a_process_that_takes_a_slot_is_looked_at_at_once(
    looked: Looked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only at the next look, which never comes here: what was mounted over for its start is
    mapped, and found."""
    forged = tmp_path / "forged"
    forged.write_bytes((looked.share / "limits").read_bytes())
    looked.begin()
    looked.auditor.start()
    until(lambda: looked.card.looks, "the first look")
    for name in ("BUSY_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(f"gpupool.audit.fence_auditor.{name}", 3600.0)
    words = [sys.executable, "-c", FORGED, str(forged)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        looked.auditor.note_slot("al-1", process.pid)
        until(lambda: looked.told, "the finding")
        process.kill()
    assert looked.told == [("mount", "warn")]
    looked.auditor.close()
    looked.auditor.join(10)


def test_who_takes_a_slot_before_its_job_is_known_to_run_is_looked_at_when_it_is(
    looked: Looked, tmp_path: Path
) -> None:
    forged = tmp_path / "forged"
    forged.write_bytes((looked.share / "grants").read_bytes())
    words = [sys.executable, "-c", FORGED, str(forged)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        looked.auditor.note_slot("al-1", process.pid)
        looked.auditor.check_entered()
        assert looked.told == []
        looked.begin()
        looked.auditor.check_entered()
        process.kill()
    assert looked.told == [("mount", "warn")]
