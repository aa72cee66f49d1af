"""Attached jobs, with the real supervisor, the real client and a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client as supervisor
from gpupool.agent.supervisor.client import SupervisorConnection
from gpupool.base.errors import CommandNotFound, WrongState
from gpupool.client.attach import attach_to_job
from tests.support.supervised import (
    ENVIRONMENT,
    SECONDS,
    Jobs,
    await_end,
    is_alive,
    supervised_jobs,
    until,
)

CLIENT = (
    "import sys\n"
    "from gpupool.client import attach\n"
    "kind = sys.argv[2]\n"
    "attach.PROTOCOL_MAX = 1 if kind == 'pty+log of 1' else attach.PROTOCOL_MAX\n"
    "job = attach.attach_to_job(sys.argv[1], pty=kind != 'fds', with_log='log' in kind)\n"
    "sys.exit(job.run_until_exit())\n"
)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


def client_command(job_dir: Path, kind: str) -> Sequence[str | Path]:
    return [sys.executable, "-c", CLIENT, str(job_dir / "sock"), kind]


class Terminal:
    """A person: a terminal with a client in it, what it shows, and what is typed."""

    def __init__(
        self,
        job_dir: Path,
        *,
        errors: int | None = None,
        rows: int = 33,
        columns: int = 111,
        kind: str = "pty",
    ) -> None:
        self.screen = b""
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.settings = termios.tcgetattr(slave)
        self.client = subprocess.Popen(
            client_command(job_dir, kind),
            stdin=slave, stdout=slave, stderr=slave if errors is None else errors,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self._slave = slave

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def await_text(self, text: bytes) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.screen:
            assert select.select([self.master], [], [], deadline - time.monotonic())[0], self.screen
            self.screen += os.read(self.master, 65536)

    def await_exit(self) -> int:
        deadline = time.monotonic() + SECONDS
        while self.client.poll() is None:
            assert time.monotonic() < deadline, self.screen
            if select.select([self.master], [], [], 0.01)[0]:
                self.screen += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.screen += os.read(self.master, 65536)
        return self.client.returncode

    def is_restored(self) -> bool:
        return termios.tcgetattr(self._slave) == self.settings

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.client.kill()
        self.client.wait()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[type[Terminal]]:
    opened: list[Terminal] = []

    class Tracked(Terminal):
        def __init__(self, *arguments: object, **fields: object) -> None:
            super().__init__(*arguments, **fields)  # type: ignore[arg-type]
            opened.append(self)

    yield Tracked
    for one in opened:
        one.close()


def test_a_program_gets_exactly_the_descriptors_of_its_client(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", "cat; echo err >&2; exit 7", stdio="attach")
    done = subprocess.run(
        client_command(job_dir, "fds"),
        input=b"in",
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, b"in", b"err\n")
    assert supervisor.read_exit(job_dir).log_bytes == 0


def test_a_closed_pipe_ends_the_program_as_it_would_without_us(jobs: Jobs) -> None:
    job_dir = jobs.start("yes", stdio="attach")
    client = subprocess.Popen(client_command(job_dir, "fds"), stdout=subprocess.PIPE)
    assert client.stdout is not None
    client.stdout.read(10)
    client.stdout.close()
    assert client.wait(SECONDS) == 128 + signal.SIGPIPE


def test_a_terminal_is_asked_for_but_not_used_when_there_is_none(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", "test -t 0 || test -t 1 || echo none", stdio="attach")
    done = subprocess.run(
        client_command(job_dir, "pty"), capture_output=True, stdin=subprocess.DEVNULL, check=True
    )
    assert done.stdout == b"none\n"


def test_before_anybody_attaches_nothing_runs(jobs: Jobs, tmp_path: Path) -> None:
    job_dir = jobs.start("touch", str(tmp_path / "ran"), stdio="attach")
    with SupervisorConnection(job_dir) as line:
        assert (line.read_status().state, line.read_status().attached, line.read_status().pid) == (
            "waiting",
            False,
            0,
        )
        with pytest.raises(supervisor.RequestRefusal, match="not-running"):
            line.send_signal(15)
        line.stop(0)
    record = await_end(job_dir)
    assert (record.state, record.stage) == ("failed_to_start", "attach")
    assert not (tmp_path / "ran").exists()
    assert not (job_dir / "started").exists()


def test_a_job_that_nobody_attaches_to_is_given_up(jobs: Jobs) -> None:
    job_dir = jobs.start("true", stdio="attach", attach_seconds=1)
    record = await_end(job_dir)
    assert (record.state, record.message) == ("failed_to_start", "nobody attached within 1 seconds")


OUTLIVES = "sleep 1.5; exit 5"
"""The second in which somebody had to attach."""


def test_who_has_attached_may_stay_as_long_as_the_program_runs(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", OUTLIVES, stdio="attach", attach_seconds=1)
    assert subprocess.run(client_command(job_dir, "fds"), check=False).returncode == 5
    assert supervisor.read_exit(job_dir).reason == "exited"


def test_who_has_attached_a_terminal_may_stay_as_long_as_the_program_runs(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("sh", "-c", OUTLIVES, stdio="attach", attach_seconds=1)
    assert terminal(job_dir).await_exit() == 5
    assert supervisor.read_exit(job_dir).reason == "exited"


def test_a_command_that_is_not_found_is_said_to_the_client(jobs: Jobs) -> None:
    job_dir = jobs.start("no-such-command", stdio="attach")
    with pytest.raises(CommandNotFound, match="cannot run 'no-such-command'"):
        attach_to_job(str(job_dir / "sock"), pty=False).run_until_exit()


def test_attaching_to_a_job_that_is_over_is_refused(jobs: Jobs) -> None:
    job_dir = jobs.start("true", stdio="attach")
    assert attach_to_job(str(job_dir / "sock"), pty=False).run_until_exit() == 0
    until(lambda: not supervisor.is_supervised(job_dir))
    with pytest.raises(WrongState, match="no longer be attached"):
        attach_to_job(str(job_dir / "sock"), pty=False)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGINT]
)
def test_signals_to_the_client_reach_the_program(jobs: Jobs, number: signal.Signals) -> None:
    script = f"trap 'exit 40' {number.name[3:]}; echo ready; while :; do sleep 0.01; done"
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    client = subprocess.Popen(client_command(job_dir, "fds"), stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(number)
    assert client.wait(SECONDS) == 40
    client.stdout.close()


def test_a_second_interrupt_within_two_seconds_kills_a_program_that_will_not_listen(
    jobs: Jobs,
) -> None:
    script = "trap 'echo no' INT; echo ready; while :; do sleep 0.01; done"
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    client = subprocess.Popen(client_command(job_dir, "fds"), stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGINT)
    assert client.stdout.readline() == b"no\n"
    client.send_signal(signal.SIGINT)
    assert client.wait(SECONDS) == 128 + signal.SIGKILL
    client.stdout.close()
    assert supervisor.read_exit(job_dir).reason == "interrupted"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_stopping_the_client_stops_the_program_and_continuing_it_continues_both(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", "echo ready; exec sleep 600", stdio="attach")
    client = subprocess.Popen(client_command(job_dir, "fds"), stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    with SupervisorConnection(job_dir) as line:
        command = line.read_status().pid
        client.send_signal(signal.SIGTSTP)
        until(lambda: state_of(command) == "T" and state_of(client.pid) == "T")
        client.send_signal(signal.SIGCONT)
        until(lambda: state_of(command) == "S" and state_of(client.pid) == "S")
        line.stop(0)
    assert client.wait(SECONDS) == 137
    client.stdout.close()


def test_a_program_in_a_terminal_has_a_terminal_of_its_own(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo three; stty size; ps -o tpgid= -p $$; echo $$; exit 5"
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    person = terminal(job_dir)
    assert person.await_exit() == 5
    words = person.screen.split()
    assert words[:3] == [b"three", b"33", b"111"]
    assert words[3] == words[4], "the command leads the foreground group of the terminal"
    assert person.is_restored()


def read_log(job_dir: Path) -> bytes:
    return b"".join(segment.read_bytes() for segment in sorted(job_dir.glob("log.*")))


def test_what_a_terminal_shows_is_in_the_log_to_its_last_byte(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("sh", "-c", "seq 1 20000; echo err >&2; exit 5", stdio="attach")
    person = terminal(job_dir, kind="pty+log")
    assert person.await_exit() == 5
    assert read_log(job_dir) == person.screen
    assert person.screen.endswith(b"20000\r\nerr\r\n")


@pytest.mark.parametrize("kind", ["pty", "pty+log of 1"])
def test_a_terminal_without_a_log_leaves_none(
    kind: str, jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("echo", "shown", stdio="attach")
    person = terminal(job_dir, kind=kind)
    assert person.await_exit() == 0
    assert person.screen == b"shown\r\n"
    assert list(job_dir.glob("log.*")) == []


def test_the_log_goes_on_when_the_client_is_killed_and_another_comes(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    script = "echo one; read -r line; echo $line; read -r line; echo $line"
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    first = terminal(job_dir, kind="pty+log")
    first.await_text(b"one\r\n")
    first.client.kill()
    first.client.wait()
    with SupervisorConnection(job_dir) as line:
        until(lambda: not line.read_status().attached)
    second = terminal(job_dir, kind="pty+log")
    until(lambda: not second.is_restored())  # before, the person's own terminal echoes
    second.type(b"two\n")
    second.await_text(b"two\r\ntwo\r\n")
    second.type(b"three\n")
    assert second.await_exit() == 0
    assert read_log(job_dir) == b"one\r\ntwo\r\ntwo\r\nthree\r\nthree\r\n", "typed and printed"


def test_a_stopped_client_holds_up_no_end(jobs: Jobs, terminal: type[Terminal]) -> None:
    job_dir = jobs.start("sh", "-c", "echo ready; exec sleep 600", stdio="attach")
    person = terminal(job_dir, kind="pty+log")
    person.await_text(b"ready\r\n")
    person.client.send_signal(signal.SIGSTOP)
    with SupervisorConnection(job_dir) as line:
        line.stop(0)
    assert await_end(job_dir).signal == signal.SIGKILL
    assert read_log(job_dir) == b"ready\r\n"
    person.client.send_signal(signal.SIGCONT)
    assert person.await_exit() == 128 + signal.SIGKILL


def test_ctrl_c_in_a_terminal_interrupts_the_program(jobs: Jobs, terminal: type[Terminal]) -> None:
    job_dir = jobs.start("sh", "-c", "echo ready; exec sleep 600", stdio="attach")
    person = terminal(job_dir)
    person.await_text(b"ready")
    person.type(b"\x03")
    assert person.await_exit() == 130
    assert person.is_restored()
    assert supervisor.read_exit(job_dir).signal == signal.SIGINT


def test_what_is_typed_is_read_and_a_new_size_is_noticed(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    script = (
        "trap 'stty size' WINCH; echo ready; read line; echo got $line; while read more; do :; done"
    )
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    person = terminal(job_dir)
    person.await_text(b"ready")
    person.type(b"words\r")
    person.await_text(b"got words")
    person.resize(44, 99)
    person.await_text(b"44 99")
    person.type(b"\x04")
    assert person.await_exit() == 0


def test_a_large_output_arrives_whole_before_the_exit_code(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("seq", "1", "50000", stdio="attach")
    person = terminal(job_dir)
    assert person.await_exit() == 0
    assert (
        person.screen.replace(b"\r\n", b"\n") == "".join(f"{i}\n" for i in range(1, 50001)).encode()
    )


def test_errors_sent_to_a_file_do_not_go_to_the_terminal(
    jobs: Jobs, terminal: type[Terminal], tmp_path: Path
) -> None:
    job_dir = jobs.start("sh", "-c", "echo shown; echo hidden >&2", stdio="attach")
    with (tmp_path / "errors").open("wb") as errors:
        person = terminal(job_dir, errors=errors.fileno())
        assert person.await_exit() == 0
    assert person.screen == b"shown\r\n"
    assert (tmp_path / "errors").read_bytes() == b"hidden\n"


def test_the_terminal_is_restored_when_the_client_is_terminated(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("sh", "-c", "echo ready; exec sleep 600", stdio="attach")
    person = terminal(job_dir)
    person.await_text(b"ready")
    assert not person.is_restored()
    person.client.terminate()
    assert person.await_exit() == 143
    assert person.is_restored()


def test_a_program_outlives_its_killed_client_and_its_terminal_can_be_taken_again(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    script = (
        "echo ready; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; "
        "done; echo unseen; read x; echo got $x"
    )
    job_dir = jobs.start("sh", "-c", script, stdio="attach")
    first = terminal(job_dir)
    first.await_text(b"ready")
    first.client.kill()
    with SupervisorConnection(job_dir) as line:
        until(lambda: not line.read_status().attached)
        # Far more than a terminal holds: it runs on because somebody empties it.
        until(lambda: b"unseen" in supervisor.read_log(job_dir, 0, 1 << 20).data)
        second = terminal(job_dir)
        until(lambda: line.read_status().attached)
        with pytest.raises(supervisor.RequestRefusal, match="attached"):
            line._request("attach pty 24 80")
    second.type(b"again\r")
    second.await_text(b"got again")
    assert second.await_exit() == 0


def test_a_program_with_a_clients_descriptors_outlives_the_client(
    jobs: Jobs, tmp_path: Path
) -> None:
    job_dir = jobs.start(
        "sh", "-c", "echo ready; read x; echo $x > out", stdio="attach", directory=str(tmp_path)
    )
    reading, writing = os.pipe()
    client = subprocess.Popen(client_command(job_dir, "fds"), stdin=reading, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    client.kill()
    client.wait()
    client.stdout.close()
    with SupervisorConnection(job_dir) as line:
        until(lambda: not line.read_status().attached)
        assert line.read_status().state == "running"
    os.write(writing, b"late\n")
    assert await_end(job_dir).exit_code == 0
    assert (tmp_path / "out").read_text() == "late\n"
    os.close(reading)
    os.close(writing)


def test_a_program_that_closes_its_terminal_and_lives_on_does_not_keep_us_busy(
    jobs: Jobs, terminal: type[Terminal]
) -> None:
    job_dir = jobs.start("sh", "-c", "echo ready; exec sleep 600 <&- >&- 2>&-", stdio="attach")
    person = terminal(job_dir)
    person.await_text(b"ready")
    with SupervisorConnection(job_dir) as line:
        guard = line.read_status().supervisor_pid

        def ticks(pid: int) -> int:
            return sum(
                map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
            )

        before = ticks(guard) + ticks(person.client.pid)
        assert not select.select([line], [], [], 0.5)[0]
        person.client.kill()
        until(lambda: not line.read_status().attached)
        assert not select.select([line], [], [], 0.5)[0]
        assert ticks(guard) - before < 10
        line.stop(0)
    await_end(job_dir)


def test_a_killed_supervisor_is_noticed_by_the_client(jobs: Jobs) -> None:
    job_dir = jobs.start(
        "sh", "-c", "echo ready; exec sleep 600", stdio="attach", environment=ENVIRONMENT
    )
    client = subprocess.Popen(
        client_command(job_dir, "fds"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert client.stdout is not None
    assert client.stderr is not None
    assert client.stdout.readline() == b"ready\n"
    with SupervisorConnection(job_dir) as line:
        status = line.read_status()
    os.kill(status.supervisor_pid, signal.SIGKILL)
    assert client.wait(SECONDS) == 1
    assert b"GP-5000" in client.stderr.read()
    until(lambda: not is_alive(status.pid))
    client.stdout.close()
    client.stderr.close()


def test_importing_the_client_loads_nothing_heavy() -> None:
    look = "import sys, gpupool.client.attach, gpupool.client.attach_relay; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {look}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    heavy = {
        "pydantic",
        "socket",
        "signal",
        "enum",
        "subprocess",
        "typing",
        "gpupool.agent",
        "termios",
        "dataclasses",
    }
    assert heavy & set(done.stdout.split()) == set()
