"""The agent's side of the job supervisor: start a job once, find it again, speak with it, read what it left.

One job is one directory; everything here takes that directory and needs no memory of its own, so a newly started
agent is as good as the one that started the job. Must not know about claims, devices or the server.
The protocol is described in docs/reference/supervisor.md.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gpupool.agent.job_log import LogChunk, log_end, log_files, read_log
from gpupool.agent.job_record import ExitRecord, StartRecord, parse_exit, read_exit, read_started
from gpupool.agent.job_spec import BadSpec, Bind, JobSpec, Limit, read_spec, write_spec
from gpupool.agent.job_state import JobState, JobStatus, SupervisorError, inspect, is_supervised
from gpupool.agent.orphans import Reaped, StillSupervised, reap_orphans
from gpupool_native import shim_path

__all__ = [
    "AlreadyStarted",
    "AlreadySupervised",
    "BadSpec",
    "Bind",
    "Connection",
    "ConnectionLost",
    "ExitEvent",
    "ExitRecord",
    "FailedToStart",
    "Incompatible",
    "JobSpec",
    "JobState",
    "JobStatus",
    "Limit",
    "LiveStatus",
    "LogChunk",
    "NotRunning",
    "Reaped",
    "RequestRefused",
    "StartRecord",
    "StillSupervised",
    "SupervisorError",
    "inspect",
    "is_supervised",
    "log_end",
    "log_files",
    "read_exit",
    "read_log",
    "read_spec",
    "read_started",
    "reap_orphans",
    "start",
    "write_spec",
]

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1
_MAX_SOCKET_PATH: Final = 107  # sun_path is 108 bytes with its final NUL
_LINE_BYTES: Final = 1024


class AlreadyStarted(SupervisorError):
    """The command has been started before, by this agent or one before it. It was not started again."""


class AlreadySupervised(SupervisorError):
    """A supervisor holds this job right now."""


class FailedToStart(SupervisorError):
    """The command could not be executed; `record` says why, and the job has ended."""

    def __init__(self, message: str, record: ExitRecord | None) -> None:
        super().__init__(message)
        self.record = record


class NotRunning(SupervisorError):
    """Nobody listens on the job's socket: it has not started, has ended, or its supervisor has died."""


class ConnectionLost(SupervisorError):
    """The supervisor closed the connection without a word. `inspect` tells whether the job ended."""


class Incompatible(SupervisorError):
    """No version of the protocol is spoken by both sides."""


class RequestRefused(SupervisorError):
    """The supervisor answered `error CODE text`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class LiveStatus:
    """What a running supervisor says. `state` is waiting, starting, running or ending; `pid` 0 before the start."""

    state: str
    stdio: str
    attached: bool
    pid: int
    start_ticks: int
    supervisor_pid: int
    started_ns: int
    started_boot_ns: int
    log_bytes: int
    lost_bytes: int
    share: str
    leftover: int
    share_refused: str = ""
    """Why the share and what goes with it could not be mounted."""


@dataclass(frozen=True)
class ExitEvent:
    """The news that a job ended; the whole record is in the job's directory by then."""

    state: str
    reason: str
    exit_code: int | None
    signal: int | None
    message: str


def _raise_refusal(status: int, message: str, job_dir: Path) -> None:
    match status:
        case 0:
            return
        case 10:
            raise BadSpec(message)
        case 11:
            raise AlreadyStarted(message)
        case 12:
            raise AlreadySupervised(message)
        case 13:
            raise FailedToStart(message, read_exit(job_dir))
        case _:
            raise SupervisorError(f"the supervisor could not start (status {status}): {message}")


def start(job_dir: Path, *, timeout_seconds: float = 60.0) -> JobStatus:
    """Starts the job described in the directory; returns when it runs or, for stdio=attach, can be attached to.

    Safe to repeat: a job is never started twice. Blocks for a few milliseconds, at most `timeout_seconds`; after
    that `inspect` tells what came of it. Raises BadSpec, AlreadyStarted, AlreadySupervised, FailedToStart or
    SupervisorError. A service manager that runs the agent must not end the agent's whole cgroup with it.
    """
    try:
        done = subprocess.run(
            [shim_path(), os.path.abspath(job_dir)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"the supervisor did not answer within {timeout_seconds:g} seconds") from error
    message = done.stderr.decode("utf-8", "replace").strip().removeprefix("gpupool-shim: ")
    _raise_refusal(done.returncode, message, job_dir)
    return inspect(job_dir)


def _connect(job_dir: Path, timeout_seconds: float) -> socket.socket:
    path = os.fsencode(os.path.abspath(job_dir / "sock"))
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # Blocking, with the kernel's own timeout: a socket that Python times is refused at once when a crowd is waiting.
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout_seconds) + 1, 0))
    directory = -1
    try:
        if len(path) > _MAX_SOCKET_PATH:
            directory = os.open(job_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = b"/proc/self/fd/%d/sock" % directory
        channel.connect(path)
    except OSError as error:
        channel.close()
        raise NotRunning(f"no supervisor answers in {job_dir}: {error.strerror or error}") from error
    finally:
        if directory >= 0:
            os.close(directory)
    return channel


def _pairs(text: str) -> dict[str, str]:
    """key=value words; `message=` comes last and holds the rest of the line."""
    head, found, message = text.partition("message=")
    pairs = dict(word.split("=", 1) for word in head.split() if "=" in word)
    return pairs | {"message": message} if found else pairs


def _exit_event(pairs: Mapping[str, str]) -> ExitEvent:
    record = parse_exit(pairs)
    return ExitEvent(record.state, record.reason, record.exit_code, record.signal, record.message)


class Connection:
    """A conversation with one running supervisor. Requests block for at most `timeout_seconds`.

    After `subscribe`, wait for `fileno()` to become readable and call `read_event` until it answers None; call it
    once after each other request too, since the news may have come in between.
    """

    def __init__(self, job_dir: Path, *, timeout_seconds: float = 10.0) -> None:
        self._channel = _connect(job_dir, timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._buffer = b""
        self._events: deque[ExitEvent] = deque()
        self._closed_by_peer = False
        try:
            self.version = self._hello()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """For a selector."""
        return self._channel.fileno()

    def close(self) -> None:
        """Hangs up. The job is not touched."""
        self._channel.close()

    def status(self) -> LiveStatus:
        """What the supervisor knows now."""
        pairs = _pairs(self._request("status"))
        return LiveStatus(
            state=pairs["state"],
            stdio=pairs["stdio"],
            attached=pairs["attached"] == "yes",
            share=pairs["share"],
            pid=int(pairs["pid"]),
            start_ticks=int(pairs["start_ticks"]),
            supervisor_pid=int(pairs["supervisor_pid"]),
            started_ns=int(pairs["started_ns"]),
            started_boot_ns=int(pairs["started_boot_ns"]),
            log_bytes=int(pairs["log_bytes"]),
            lost_bytes=int(pairs["lost_bytes"]),
            leftover=int(pairs["leftover"]),
            share_refused=pairs.get("message", ""),
        )

    def signal(self, number: int) -> None:
        """A signal to the command's process group. Raises RequestRefused("not-running") when it has ended."""
        self._request(f"signal {number}")

    def stop(self, grace_seconds: int) -> None:
        """SIGTERM to every process of the job, SIGKILL after the grace. Idempotent; returns at once."""
        self._request(f"stop {grace_seconds}")

    def resize(self, rows: int, columns: int) -> None:
        """The size of the job's terminal, when it has one."""
        self._request(f"resize {rows} {columns}")

    def subscribe(self) -> None:
        """From now on the end of the job makes `fileno()` readable."""
        self._request("wait")

    def read_event(self) -> ExitEvent | None:
        """The news, if there is any; never blocks. Raises ConnectionLost when the supervisor went without a word."""
        if not self._events and not self._closed_by_peer:
            self._receive(blocking=False)
            self._take_events()
        if self._events:
            return self._events.popleft()
        if self._closed_by_peer:
            raise ConnectionLost("the supervisor is gone")
        return None

    def _hello(self) -> int:
        try:
            words = self._request(f"hello {PROTOCOL_MIN} {PROTOCOL_MAX}").split()
        except RequestRefused as error:
            if error.code != "version":
                raise
            raise Incompatible(f"we speak {PROTOCOL_MIN} to {PROTOCOL_MAX}; {error}") from error
        return int(words[0])

    def _request(self, line: str) -> str:
        try:
            self._channel.settimeout(self._timeout_seconds)
            self._channel.sendall(line.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            self._closed_by_peer = True  # what it said before going may still be read
        while True:
            answer = self._next_line()
            if answer is None:
                self._receive(blocking=True)
            elif answer.startswith("exited "):
                self._events.append(_exit_event(_pairs(answer)))
            else:
                return _result(answer)

    def _receive(self, *, blocking: bool) -> None:
        if self._closed_by_peer and blocking:
            raise ConnectionLost("the supervisor is gone")
        try:
            self._channel.settimeout(self._timeout_seconds if blocking else 0)
            data = self._channel.recv(65536)
        except BlockingIOError:
            return
        except TimeoutError as error:
            raise SupervisorError(f"the supervisor did not answer within {self._timeout_seconds:g} seconds") from error
        except ConnectionResetError:
            data = b""
        self._buffer += data
        self._closed_by_peer = not data

    def _next_line(self) -> str | None:
        line, found, rest = self._buffer.partition(b"\n")
        if not found:
            return None
        self._buffer = rest
        return line.decode("utf-8", "replace")

    def _take_events(self) -> None:
        while (line := self._next_line()) is not None:
            if line.startswith("exited "):
                self._events.append(_exit_event(_pairs(line)))


def _result(answer: str) -> str:
    word, _, rest = answer.partition(" ")
    if word == "error":
        code, _, message = rest.partition(" ")
        raise RequestRefused(code, message)
    return rest
