"""The control socket: versions old against new, strangers, nonsense, crowds."""

from __future__ import annotations

import array
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client as supervisor
from gpupool.agent.supervisor import connection
from gpupool.agent.supervisor.client import SupervisorConnection
from gpupool.base.errors import WrongState
from gpupool.client import attach as client
from gpupool_native import shim_path
from tests.support.supervised import SECONDS, Jobs, await_end, supervised_jobs, until

NATIVE = Path(__file__).parents[3] / "native"
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


@pytest.fixture
def job_dir(jobs: Jobs) -> Path:
    return jobs.start("sleep", "600")


class Raw:
    """A connection that says whatever it likes."""

    def __init__(self, job_dir: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(
            str(job_dir / "sock")
        )  # before the timeout: it waits when a crowd is at the door
        self.socket.settimeout(SECONDS)

    def say(self, text: bytes) -> None:
        self.socket.sendall(text)

    def hear(self) -> bytes:
        """One line, or b"" when hung up on."""
        line = b""
        while not line.endswith(b"\n"):
            try:
                data = self.socket.recv(1)
            except ConnectionResetError:
                data = b""
            if not data:
                break
            line += data
        return line

    def ask(self, text: bytes) -> bytes:
        self.say(text)
        return self.hear()

    def is_hung_up(self) -> bool:
        return self.hear() == b""

    def close(self) -> None:
        self.socket.close()


def greeted(job_dir: Path) -> Raw:
    raw = Raw(job_dir)
    assert raw.ask(b"hello 1 1\n") == b"hello 1\n"
    return raw


def assert_well(job_dir: Path) -> None:
    with SupervisorConnection(job_dir) as line:
        assert line.read_status().state == "running"


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (b"hello 1 1\n", b"hello 1\n"),
        (b"hello 0 1\n", b"hello 1\n"),
        (b"hello 1 99\n", b"hello 2\n"),
    ],
)
def test_the_highest_common_version_is_spoken(job_dir: Path, said: bytes, answered: bytes) -> None:
    assert Raw(job_dir).ask(said) == answered


@pytest.mark.parametrize("said", [b"hello 3 4\n", b"hello 0 0\n", b"hello\n", b"hello 2 1\n", b"hello x y\n",
                                  b"hello 99999999999999999999 99999999999999999999\n", b"hello 1 1 1\n", b"status\n",
                                  b"\x00\xff\n", b"stop 0\n"])  # fmt: skip
def test_a_stranger_to_the_protocol_is_told_and_hung_up_on(job_dir: Path, said: bytes) -> None:
    raw = Raw(job_dir)
    answer = raw.ask(said)
    assert answer.startswith(b"error ") or answer == b""
    assert answer == b"" or raw.is_hung_up()
    assert_well(job_dir)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"signal\n", b"syntax"),
        (b"signal 0\n", b"syntax"),
        (b"signal 65\n", b"syntax"),
        (b"signal -9\n", b"syntax"),
        (b"stop\n", b"syntax"),
        (b"stop soon\n", b"syntax"),
        (b"resize 1\n", b"syntax"),
        (b"resize 24 80\n", b"no-terminal"),
        (b"attach fds\n", b"log"),
        (b"\n", b"syntax"),
    ],
)
def test_a_wrong_request_is_answered_and_the_conversation_goes_on(
    job_dir: Path, said: bytes, code: bytes
) -> None:
    raw = greeted(job_dir)
    assert raw.ask(said).startswith(b"error " + code + b" ")
    assert raw.ask(b"status\n").startswith(b"status state=running ")


@pytest.mark.parametrize("said", [b"dance\n", b"status now\n", b"x" * 1024, b"status\0\n"])
def test_what_is_no_request_ends_that_connection_only(job_dir: Path, said: bytes) -> None:
    other, raw = greeted(job_dir), greeted(job_dir)
    raw.say(said)
    while raw.hear():
        pass
    assert other.ask(b"status\n").startswith(b"status ")


def test_many_requests_in_one_piece_and_one_request_in_many_pieces_are_understood(
    job_dir: Path,
) -> None:
    raw = greeted(job_dir)
    raw.say(b"status\nwait\nsta")
    assert raw.hear().startswith(b"status ")
    assert raw.hear() == b"ok\n"
    for piece in (b"t", b"u", b"s"):
        raw.say(piece)
    assert raw.ask(b"\n").startswith(b"status ")


def test_random_bytes_never_harm_the_job(job_dir: Path) -> None:
    rng = random.Random(7)
    words = [
        b"hello 1 1",
        b"status",
        b"signal ",
        b"attach pty 1 1",
        b"attach fds",
        b"wait",
        b"resize 1 1",
        b"\0",
        b" ",
        b"\n",
    ]
    for _ in range(300):
        raw = Raw(job_dir)
        pieces = [
            rng.choice(words) if rng.random() < 0.8 else rng.randbytes(rng.randint(1, 40))
            for _ in range(12)
        ]
        try:
            raw.say(b"hello 1 1\n" + b"".join(pieces) + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            raw.close()
    assert_well(job_dir)


def test_a_crowd_is_bounded_and_leaves_room_when_it_goes(job_dir: Path) -> None:
    crowd = [greeted(job_dir) for _ in range(16)]
    late = Raw(job_dir)
    assert late.hear() == b"error busy too many connections\n"
    assert late.is_hung_up()
    crowd[3].close()

    def has_room() -> bool:
        raw = Raw(job_dir)
        answer = raw.hear() if not raw.say(b"hello 1 1\n") else b""
        raw.close()
        return answer == b"hello 1\n"

    until(has_room)


def test_one_that_never_reads_its_answers_is_hung_up_on(job_dir: Path) -> None:
    raw = greeted(job_dir)

    def is_cut_off() -> bool:
        try:
            raw.say(b"status\n" * 100)
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    until(is_cut_off)
    assert_well(job_dir)


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_descriptors_that_nobody_asked_for_are_not_kept(jobs: Jobs) -> None:
    job_dir = jobs.start("sleep", "600", stdio="attach")
    with SupervisorConnection(job_dir) as line:
        pid = line.read_status().supervisor_pid
        before = descriptors_of(pid)
        raw = greeted(job_dir)
        for count in (1, 2, 3):
            socket.send_fds(raw.socket, [b"status\n"], [0] * count)
            assert raw.hear().startswith(b"status ")
        until(lambda: descriptors_of(pid) == before + 1)
        socket.send_fds(raw.socket, [b"attach fds\n"], [0, 0])
        assert raw.hear() == b"error descriptors 3 are needed, 2 came\n"
        until(lambda: descriptors_of(pid) == before + 1)
        socket.send_fds(raw.socket, [b"status\n"], list(array.array("i", [0] * 50)))
        assert raw.is_hung_up()
        until(lambda: descriptors_of(pid) == before)
        line.stop(0)


def build(tmp_path: Path, low: int, high: int) -> Path:
    if COMPILER is None:
        pytest.skip("needs a C compiler to build a supervisor of another version")
    program = tmp_path / f"shim-{low}-{high}"
    versions = [f"-DPROTOCOL_MIN={low}", f"-DPROTOCOL_MAX={high}"]
    sources = [
        *NATIVE.glob("supervisor/**/*.c"),
        NATIVE / "common/small_file.c",
        NATIVE / "common/proc_stat.c",
    ]
    command = [COMPILER, "-std=gnu11", f"-I{NATIVE}", f"-I{NATIVE}/supervisor", *versions]
    subprocess.run([*command, "-o", program, *sources], check=True)
    return program


def start_with(program: Path, job_dir: Path) -> None:
    subprocess.run([program, job_dir], check=True)


def test_a_newer_supervisor_that_knows_our_version_serves_us(jobs: Jobs, tmp_path: Path) -> None:
    job_dir = jobs.write("sh", "-c", "exit 6", stdio="attach")
    start_with(build(tmp_path, 1, 5), job_dir)
    with SupervisorConnection(job_dir) as line:
        assert line.version == 2
    assert client.attach_to_job(str(job_dir / "sock"), pty=False).run_until_exit() == 6


def test_an_older_supervisor_serves_a_newer_client(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PROTOCOL_MAX", 7)
    monkeypatch.setattr(client, "PROTOCOL_MAX", 7)
    job_dir = jobs.start("sh", "-c", "exit 6", stdio="attach")
    with SupervisorConnection(job_dir) as line:
        assert (line.version, line.read_status().state) == (2, "waiting")
    assert client.attach_to_job(str(job_dir / "sock"), pty=False).run_until_exit() == 6


def test_without_a_common_version_both_sides_say_so_and_the_job_runs_on(
    jobs: Jobs, tmp_path: Path
) -> None:
    program = build(tmp_path, 3, 4)
    waiting, running = (
        jobs.write("true", stdio="attach", attach_seconds=1),
        jobs.write("sh", "-c", "sleep 0.2; exit 4"),
    )
    start_with(program, waiting)
    start_with(program, running)
    with pytest.raises(
        supervisor.ProtocolMismatch, match="we speak 1 to 2; version: this supervisor speaks 3 to 4"
    ):
        SupervisorConnection(running)
    with pytest.raises(WrongState, match="speaks 3 to 4"):
        client.attach_to_job(str(waiting / "sock"), pty=False)
    # Its directory still tells everything: no version of the protocol is needed to find or to end
    # it.
    assert supervisor.inspect_job(running).state is supervisor.JobState.RUNNING
    assert until(lambda: supervisor.read_exit(running)).exit_code == 4
    assert until(lambda: supervisor.read_exit(waiting)).state == "failed_to_start"


def test_the_program_says_what_it_speaks() -> None:
    said = subprocess.run(
        [shim_path(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert (
        said
        == f"gpupool-shim spec 1 protocol {connection.PROTOCOL_MIN} {connection.PROTOCOL_MAX}\n"
    )


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_only_the_jobs_user_the_owner_and_root_may_speak(jobs: Jobs, tmp_path: Path) -> None:
    for part in (tmp_path, *tmp_path.parents):
        if part.stat().st_uid == 0 and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    job_dir = jobs.start("sleep", "600", uid=54321, gid=54321, owner_uid=54322)
    look = (
        "import os, socket, sys\n"
        "os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "try: s.sendall(b'hello 1 1\\n')\n"
        "except BrokenPipeError: pass\n"
        "print(s.recv(100).decode())\n"
    )

    def answer(uid: int) -> str:
        command = [sys.executable, "-c", look, str(job_dir / "sock"), str(uid)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert [answer(uid) for uid in (0, 54321, 54322)] == ["hello 1"] * 3
    assert answer(54323) == "error forbidden this job belongs to somebody else"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_job_cannot_shut_its_owner_out(jobs: Jobs, tmp_path: Path) -> None:
    script = (
        "import socket, time\n"
        "held = []\n"
        "for _ in range(40):\n"
        f"    s = socket.socket(socket.AF_UNIX); s.connect('{tmp_path}/1/sock')\n"
        "    try: s.sendall(b'hello 1 1\\n')\n"
        "    except BrokenPipeError: pass\n"
        "    held.append((s, s.recv(100)))\n"
        "print(sum(said == b'hello 1\\n' for _, said in held), flush=True); time.sleep(600)\n"
    )
    for part in (tmp_path, *tmp_path.parents):
        if part.stat().st_uid == 0 and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("needs a python3 that another user can execute")
    job_dir = jobs.start(python, "-c", script, uid=54321, gid=54321)
    until(lambda: supervisor.read_log(job_dir, 0, 100).data.endswith(b"\n"))
    assert supervisor.read_log(job_dir, 0, 100).data == b"12\n"
    with SupervisorConnection(job_dir) as line:
        line.stop(0)
    assert await_end(job_dir).reason == "stopped"
