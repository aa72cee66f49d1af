"""A connection to one running supervisor, through the socket in the job's directory.

The protocol is described in docs/reference/supervisor.md. Must not know about claims, devices or
the server.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gpupool.agent.supervisor.job_record import parse_exit
from gpupool.agent.supervisor.job_state import SupervisorError

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 2
#: Seconds from SIGKILL until a job has ended, unless the kernel holds its processes.
KILL_SECONDS: Final = 15
#: `sun_path` has 108 bytes with its final NUL (unix(7)).
_MAX_SOCKET_PATH: Final = 107


class NotRunning(SupervisorError):
    """No supervisor listens on the job's socket: the job has not started, has ended, or its
    supervisor died."""


class ConnectionLost(SupervisorError):
    """The supervisor closed the connection. `inspect_job` says whether the job ended."""


class ProtocolMismatch(SupervisorError):
    """The agent and the supervisor have no version of the protocol in common."""


class RequestRefusal(SupervisorError):
    """The supervisor answered `error CODE text`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class LiveStatus:
    """The state of a job as its supervisor reports it.

    Attributes:
        state: "waiting", "starting", "running" or "ending".
        pid: The command's process; 0 before the start.
        share_refused: Why the private mounts could not be made; empty if they were made.
    """

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


@dataclass(frozen=True)
class ExitEvent:
    """The end of a job. The whole record is in the job's directory when the event comes."""

    state: str
    reason: str
    exit_code: int | None
    signal: int | None
    message: str


def _connect(job_dir: Path, timeout_seconds: float) -> socket.socket:
    path = os.fsencode(os.path.abspath(job_dir / "sock"))
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    # A blocking socket with the kernel's own timeout: one with a timeout of Python does not block,
    # and connect(2) refuses it at once (EAGAIN) while the supervisor's queue is full.
    channel.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout_seconds) + 1, 0)
    )
    directory = -1
    try:
        if len(path) > _MAX_SOCKET_PATH:
            directory = os.open(job_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = b"/proc/self/fd/%d/sock" % directory
        channel.connect(path)
    except OSError as error:
        channel.close()
        raise NotRunning(
            f"no supervisor answers in {job_dir}: {error.strerror or error}"
        ) from error
    finally:
        if directory >= 0:
            os.close(directory)
    return channel


def _parse_pairs(text: str) -> dict[str, str]:
    """Parse `key=value` words; `message=` comes last and has the rest of the line."""
    head, found, message = text.partition("message=")
    pairs = dict(word.split("=", 1) for word in head.split() if "=" in word)
    return pairs | {"message": message} if found else pairs


def _make_exit_event(pairs: Mapping[str, str]) -> ExitEvent:
    record = parse_exit(pairs)
    return ExitEvent(record.state, record.reason, record.exit_code, record.signal, record.message)


class SupervisorConnection:
    """A connection to one running supervisor. Requests block for at most `timeout_seconds`.

    After `subscribe`, wait for `fileno()` to become readable and call `read_event` until it returns
    None. Call it once after each other request too: the event may have come with the answer.
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
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor for a selector."""
        return self._channel.fileno()

    def close(self) -> None:
        """Close the connection. The job is not affected."""
        self._channel.close()

    def read_status(self) -> LiveStatus:
        """Ask the supervisor for the job's state. Blocks for one request."""
        pairs = _parse_pairs(self._request("status"))
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

    def send_signal(self, number: int) -> None:
        """Send a signal to the command's process group.

        Raises:
            RequestRefusal: With the code "not-running": the command has ended.
        """
        self._request(f"signal {number}")

    def stop(self, grace_seconds: int) -> None:
        """Send SIGTERM to every process of the job, and SIGKILL after the grace.

        Idempotent; does not wait for the end.
        """
        self._request(f"stop {grace_seconds}")

    def resize_terminal(self, rows: int, columns: int) -> None:
        """Set the size of the job's terminal, if it has one."""
        self._request(f"resize {rows} {columns}")

    def subscribe(self) -> None:
        """Let the end of the job make `fileno()` readable from now on."""
        self._request("wait")

    def read_event(self) -> ExitEvent | None:
        """Return the event that has come, or None. Never blocks.

        Raises:
            ConnectionLost: The supervisor closed the connection without an event.
        """
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
        except RequestRefusal as error:
            if error.code != "version":
                raise
            raise ProtocolMismatch(f"we speak {PROTOCOL_MIN} to {PROTOCOL_MAX}; {error}") from error
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
                self._events.append(_make_exit_event(_parse_pairs(answer)))
            else:
                return _parse_result(answer)

    def _receive(self, *, blocking: bool) -> None:
        if self._closed_by_peer and blocking:
            raise ConnectionLost("the supervisor is gone")
        try:
            self._channel.settimeout(self._timeout_seconds if blocking else 0)
            data = self._channel.recv(65536)
        except BlockingIOError:
            return
        except TimeoutError as error:
            raise SupervisorError(
                f"the supervisor did not answer within {self._timeout_seconds:g} seconds"
            ) from error
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
                self._events.append(_make_exit_event(_parse_pairs(line)))


def stop_job(job_dir: Path, grace_seconds: int) -> None:
    """Stop a job and block until it has ended, for the grace and `KILL_SECONDS` at most.

    Raises:
        NotRunning: No supervisor has it.
        SupervisorError: It did not end.
    """
    with SupervisorConnection(job_dir) as connection:
        connection.subscribe()
        connection.stop(grace_seconds)
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        seconds = grace_seconds + KILL_SECONDS
        while connection.read_event() is None:
            if not waiting.poll(seconds * 1000):
                raise SupervisorError(f"{job_dir.name} did not end within {seconds} s")


def _parse_result(answer: str) -> str:
    word, _, rest = answer.partition(" ")
    if word == "error":
        code, _, message = rest.partition(" ")
        raise RequestRefusal(code, message)
    return rest
