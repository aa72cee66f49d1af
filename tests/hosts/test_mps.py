"""MPS with NVIDIA's own control daemon, which starts without a card; the server does not.

So all is real here up to the server: start, limits, kill, refusal, end. The compute mode is that of
a card that is played by a file.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor.client import read_log
from gpupool.base.errors import RequestRejection
from gpupool.mechanisms.card_settings.compute_mode import ComputeMode
from gpupool.mechanisms.card_settings.records import CardRecord, CardRecordBook, CardUse
from gpupool.mechanisms.contract import JobSeat, NotYet
from gpupool.mechanisms.mps.control import ControlProgram, ControlTarget
from gpupool.mechanisms.mps.daemon import DaemonPlace, DaemonProcesses
from gpupool.mechanisms.mps.mechanism import START_SECONDS, MpsMechanism
from gpupool.mechanisms.mps.replies import ReplyKind
from gpupool.mechanisms.mps.servers import SharedLimitServer
from tests.support.mps_host import CARD, GIB, FakeModes, describe_share
from tests.support.mps_real import NoProgram, fetch_program
from tests.support.supervised import Jobs, await_end, supervised_jobs, until

pytestmark = pytest.mark.hosts

#: An account without rights: nobody.
OWNER = 65534
STRANGER = 65533


@pytest.fixture(scope="session")
def fetched() -> Path:
    try:
        return fetch_program()
    except NoProgram as reason:
        pytest.skip(str(reason))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every account reaches, with a short path for sockets."""
    with tempfile.TemporaryDirectory(prefix="mps") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def program(fetched: Path, folder: Path) -> Path:
    """The program where every account can run it; the checkout may be closed to others."""
    (folder / "bin").mkdir()
    # The daemon finds its server by PATH.
    for name in ("bin/nvidia-cuda-mps-control", "sbin/nvidia-cuda-mps-server"):
        shutil.copy(fetched.parents[1] / name, folder / "bin")
    return folder / "bin" / "nvidia-cuda-mps-control"


@pytest.fixture
def control(program: Path) -> ControlProgram:
    return ControlProgram(str(program))


@pytest.fixture
def owner() -> int:
    return OWNER if os.geteuid() == 0 else os.geteuid()


@pytest.fixture
def place(folder: Path, owner: int) -> DaemonPlace:
    card = folder / "card"
    card.mkdir()
    made = DaemonPlace(card, CARD.uuid, owner, owner)
    made.make_directories()
    return made


Start = Callable[[DaemonPlace], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(program: Path, control: ControlProgram) -> Iterator[Start]:
    """Plays the agent: starts the helper under its account and waits for its first answer."""
    started = list["subprocess.Popen[bytes]"]()

    def run(place: DaemonPlace) -> "subprocess.Popen[bytes]":
        helper = place.describe_helper(str(program), ("-f",))
        account = helper.uid if os.geteuid() == 0 else None
        process = subprocess.Popen(
            helper.arguments,
            env=dict(helper.environment),
            user=account,
            group=account,
            extra_groups=() if account is not None else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        deadline = time.monotonic() + 20
        while control.send_line(place.target, "get_server_list").kind is ReplyKind.NO_DAEMON:
            assert time.monotonic() < deadline, "the daemon does not answer"
            assert process.poll() is None, "the daemon ended"
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_the_program_speaks_protocol_2(control: ControlProgram) -> None:
    assert control.explain_absence() == ""
    assert not control.has_namespaces()


def test_each_answer_is_classified(
    control: ControlProgram, place: DaemonPlace, start: Start
) -> None:
    start(place)
    expected = {
        "get_default_active_thread_percentage": (ReplyKind.VALUE, "100.0"),
        "set_default_active_thread_percentage 30.5": (ReplyKind.VALUE, "30.5"),
        # A value out of range is answered with the one that holds: only reading back tells.
        "set_default_active_thread_percentage 300": (ReplyKind.VALUE, "30.5"),
        "set_default_device_pinned_mem_limit 0 81920M": (ReplyKind.EMPTY, ""),
        "get_default_device_pinned_mem_limit 0": (ReplyKind.VALUE, "80G"),
        "get_server_list": (ReplyKind.EMPTY, ""),
        "get_client_list 1": (ReplyKind.NO_SERVER, "Server 1 not found"),
        "ps": (ReplyKind.NO_SERVER, "Server not found"),
        "device_query": (ReplyKind.UNKNOWN_COMMAND, 'Unknown command "device_query"'),
        "lspart": (ReplyKind.UNKNOWN_COMMAND, 'Unknown command "lspart"'),
    }
    for line, (kind, text) in expected.items():
        reply = control.send_line(place.target, line)
        assert (reply.kind, reply.text) == (kind, text), line


def test_limits_are_on_the_daemon_before_its_server_is_waited_for(
    control: ControlProgram, place: DaemonPlace, start: Start
) -> None:
    start(place)
    users = {"a": CardUse(1, 300, 512 << 20), "b": CardUse(1, 105, GIB // 4)}
    record = CardRecord(CARD.uuid, "DEFAULT", "team", place.uid, place.gid, users, "2")
    state = SharedLimitServer(control).configure(place.target, record)
    assert (state.pid, state.missing, state.refusal) == (None, "its MPS server", "")
    assert control.send_line(place.target, "get_default_active_thread_percentage").text == "30.0"
    assert control.send_line(place.target, "get_default_device_pinned_mem_limit 0").text == "512M"


def test_a_killed_daemon_leaves_sockets_that_are_told_and_removed(
    control: ControlProgram, place: DaemonPlace, start: Start
) -> None:
    process = start(place)
    assert DaemonProcesses().find_processes(place.target) == (process.pid,)
    process.kill()
    process.wait()
    left = {path.name for path in place.target.pipe.iterdir()}
    assert {"control", "control_privileged"} <= left
    assert control.send_line(place.target, "get_server_list").kind is ReplyKind.NO_DAEMON
    assert DaemonProcesses().find_processes(place.target) == ()
    place.remove_stale_sockets()
    start(place)


@pytest.mark.root
def test_another_account_does_not_reach_the_daemon(
    control: ControlProgram, place: DaemonPlace, start: Start
) -> None:
    start(place)
    stranger = ControlTarget(place.target.pipe, place.target.log, STRANGER, STRANGER)
    line = "set_default_active_thread_percentage 95"
    assert control.send_line(stranger, line).kind is ReplyKind.NO_DAEMON
    reply = control.send_line(place.target, "get_default_active_thread_percentage")
    assert reply.text == "100.0"


def test_the_owner_can_raise_the_limit_so_the_level_is_advisory(
    control: ControlProgram, place: DaemonPlace, start: Start
) -> None:
    """The reason for the level of protocol 2: a job of the owner reaches the same socket."""
    start(place)
    for line, answer in (("30", "30.0"), ("95", "95.0")):
        reply = control.send_line(place.target, f"set_default_active_thread_percentage {line}")
        assert reply.text == answer


@pytest.fixture
def jobs(folder: Path) -> Iterator[Jobs]:
    """Directories of jobs, each under the supervisor that the agent uses."""
    (folder / "jobs").mkdir()
    yield from supervised_jobs(folder / "jobs")


def prepare_until(word: str, prepare: Callable[[], object]) -> NotYet:
    """Prepare again until the answer names what is waited for."""

    def look() -> NotYet | None:
        answer = prepare()
        assert isinstance(answer, NotYet)
        return answer if word in answer.reason else None

    found = until(look, f"the wait for its {word}")
    assert found is not None
    return found


@pytest.mark.root
def test_under_a_supervisor_a_share_without_a_server_is_refused_and_undone(
    program: Path, control: ControlProgram, folder: Path, jobs: Jobs
) -> None:
    now_ns = 1_000 * 10**9
    host = folder / "host"
    host.mkdir()
    modes = FakeModes(host)
    mechanism = MpsMechanism(modes, control, clock_ns=lambda: now_ns)
    state = folder / "state"
    # NVIDIA's server ends at once without a driver; this one does too, and says that it ran.
    server = program.with_name("nvidia-cuda-mps-server")
    script = 'echo $(id -u) $CUDA_VISIBLE_DEVICES >>"$CUDA_MPS_LOG_DIRECTORY/ran"; exit 1'
    server.write_text(f"#!/bin/sh\n{script}\n")
    view = describe_share(seat=JobSeat(uid=OWNER, gid=OWNER))
    answer = mechanism.prepare(view, state)
    assert isinstance(answer, NotYet)
    assert "daemon" in answer.reason
    uuid_folder = CardRecordBook(state / "mps").locate_folder(CARD.uuid)
    place = DaemonPlace(uuid_folder, CARD.uuid, OWNER, OWNER)
    assert answer.helpers == (place.describe_helper(control.locate_program(), ("-f",)),)
    daemon = jobs.start(
        *answer.helpers[0].arguments,
        environment=dict(answer.helpers[0].environment),
        uid=OWNER,
        gid=OWNER,
        owner_uid=OWNER,
    )
    answer = prepare_until("server", lambda: mechanism.prepare(view, state))
    assert control.send_line(place.target, "get_default_active_thread_percentage").text == "30.0"
    assert modes.read_mode(CARD.uuid) is ComputeMode.EXCLUSIVE_PROCESS
    now_ns += (START_SECONDS + 1) * 10**9
    with pytest.raises(RequestRejection, match="its MPS server did not start in 20 s"):
        mechanism.prepare(view, state)
    # The daemon found its server by the helper's PATH, and ran it under the owner's account.
    ran = (place.target.log / "ran").read_text().split()
    assert set(ran) == {str(OWNER), CARD.uuid}
    assert f"for user {OWNER}" in read_log(daemon, 0, 1 << 20).data.decode()
    mechanism.unprepare("al-1", 5, state)
    # By `quit`: SIGKILL would give a signal. 1 is its answer to a server that failed.
    ended = await_end(daemon)
    assert ended.signal is None
    assert ended.exit_code in (0, 1)
    assert modes.read_mode(CARD.uuid) is ComputeMode.DEFAULT
    assert not (state / "mps").exists()


@pytest.mark.root
def test_a_daemon_that_is_stopped_is_killed_at_the_end(
    control: ControlProgram,
    folder: Path,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpupool.mechanisms.mps.control.TIMEOUT_SECONDS", 0.5)
    host = folder / "host"
    host.mkdir()
    modes = FakeModes(host)
    mechanism = MpsMechanism(modes, control)
    state = folder / "state"
    mechanism.prepare(describe_share(seat=JobSeat(uid=OWNER, gid=OWNER)), state)
    uuid_folder = CardRecordBook(state / "mps").locate_folder(CARD.uuid)
    daemon = start(DaemonPlace(uuid_folder, CARD.uuid, OWNER, OWNER))
    os.kill(daemon.pid, 19)
    mechanism.unprepare("al-1", 5, state)
    assert daemon.wait(10) == -9
    assert modes.read_mode(CARD.uuid) is ComputeMode.DEFAULT
