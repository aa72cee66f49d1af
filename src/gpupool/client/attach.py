"""The client's half of an attached job: hands over its descriptors, or relays a terminal, until the
program ends.

The program never runs under this process: it is the supervisor's, and goes on if this process is
killed. Standard library alone, imported before every `gpupool run`, so the costly modules are
imported where they are needed. Must not know the agent, the server or leases. The protocol is
described in docs/reference/supervisor.md.
"""

from __future__ import annotations

import os
import sys
from _socket import (
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    SCM_RIGHTS,
    SO_RCVTIMEO,
    SO_SNDTIMEO,
    SOCK_CLOEXEC,
    SOCK_STREAM,
    SOL_SOCKET,
)
from _socket import socket as Socket  # noqa: N812  # the class below socket.socket; `socket` imports enum
from time import monotonic

from gpupool.base.errors import BadInput, CommandNotFound, ServiceUnavailable, WrongState
from gpupool.client.attach_relay import NoRelay, SignalQueue, TerminalRelay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Versions of the supervisor's protocol that this client speaks; docs/reference/supervisor.md.
PROTOCOL_MIN = 1
PROTOCOL_MAX = 2
#: A second Ctrl-C within this time ends the job at once, without its grace.
SECOND_INTERRUPT_SECONDS = 2.0
_MAX_SOCKET_PATH = 107  # sun_path is 108 bytes with its final NUL
#: An answer takes microseconds: only a supervisor that was stopped by hand is this late.
_ANSWER_SECONDS = 30
#: Bytes read at once: a pipe of Linux holds 64 KiB (pipe(7)).
_CHUNK = 65536
_NOT_FOUND = 2  # ENOENT
#: From this version on the client may write what a terminal shows into the job's log.
_LOG_VERSION = 2
#: Descriptors with one answer: a terminal, and the pipe of the log.
_MAX_RECEIVED = 2
_INT_BYTES = 4


class SupervisorChannel:
    """Lines and descriptors to and from one supervisor."""

    def __init__(self, socket_path: str) -> None:
        self._socket = Socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        self._buffer = b""
        self._descriptors: list[int] = []
        # One answer takes microseconds; a supervisor that was stopped by hand must not hang us for
        # good.
        for timeout in (SO_RCVTIMEO, SO_SNDTIMEO):
            self._socket.setsockopt(
                SOL_SOCKET, timeout, _ANSWER_SECONDS.to_bytes(8, sys.byteorder) + bytes(8)
            )
        try:
            self._connect(os.fsencode(os.path.abspath(socket_path)))
        except OSError as error:
            self._socket.close()
            raise WrongState(
                f"the job can no longer be attached to: {error.strerror or error}",
                hint="see how it ended with  gpupool ps --all",
            ) from error

    def _connect(self, path: bytes) -> None:
        if len(path) <= _MAX_SOCKET_PATH:
            self._socket.connect(path)
            return
        directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.connect(b"/proc/self/fd/%d/%s" % (directory, os.path.basename(path)))
        finally:
            os.close(directory)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, line: str, descriptors: tuple[int, ...] = ()) -> None:
        """One line. A supervisor that has gone meanwhile is noticed when its answer is read."""
        passed = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
        control = [(SOL_SOCKET, SCM_RIGHTS, passed)] if passed else []
        try:
            self._socket.sendmsg([line.encode() + b"\n"], control)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self) -> bool:
        """Whatever has come. False: the other side has closed."""
        try:
            data, control, _, _ = self._socket.recvmsg(
                _CHUNK, CMSG_SPACE(_MAX_RECEIVED * _INT_BYTES), MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return False
        except BlockingIOError:
            raise ServiceUnavailable(
                f"the job's supervisor did not answer within {_ANSWER_SECONDS} s"
            ) from None
        for level, kind, content in control:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                self._descriptors += memoryview(content).cast("i").tolist()
        self._buffer += data
        return bool(data)

    def lines(self) -> Iterator[str]:
        """The whole lines received so far, each once."""
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            yield line.decode("utf-8", "replace")

    def take_descriptors(self) -> list[int]:
        """The descriptors that came with an answer."""
        taken, self._descriptors = self._descriptors, []
        return taken


class AttachedJob:
    """A program that has our descriptors, or whose terminal we hold. `run_until_exit` is called
    once."""

    def __init__(
        self, channel: SupervisorChannel, signals: SignalQueue, terminal: list[int]
    ) -> None:
        self._channel = channel
        self._signals = signals
        #: The terminal, and the pipe of the log where what it shows is kept.
        self._terminal = terminal
        self._ended: dict[str, str] | None = None

    def run_until_exit(self) -> int:
        """Blocks until the program has ended; its exit code, or 128 + its signal.

        Raises CommandNotFound or BadInput when it could not be executed, ServiceUnavailable when
        its supervisor is gone.
        In the main thread, signals that ask to end, stop or resize are passed to the program.
        """
        try:
            with TerminalRelay(*self._terminal) if self._terminal else NoRelay() as relay:
                self._serve(relay)
        finally:
            self.close()
        return self._exit_code()

    def close(self) -> None:
        """Leaves the program alone, and signals to us are ours again."""
        self._channel.close()
        self._signals.restore()

    def _serve(self, relay: NoRelay) -> None:
        open_channel = True
        interrupts = _InterruptCounter()
        signals = self._signals
        while self._ended is None and open_channel:
            ready = relay.wait(self._channel.fileno(), signals.fileno())
            if signals.fileno() in ready:
                for number in signals.take():
                    relay.on_signal(number, self._channel, interrupts)
            relay.move(ready)
            if self._channel.fileno() in ready:
                open_channel = self._channel.receive()
                self._listen(relay)
        relay.finish()

    def _listen(self, relay: NoRelay) -> None:
        for line in self._channel.lines():
            if line == "ending":
                relay.finish()
            elif line.startswith("exited "):
                self._ended = words_of(line)

    def _exit_code(self) -> int:
        ended = self._ended
        if ended is None:
            raise ServiceUnavailable(
                "the job's supervisor is gone, and the program with it",
                hint="see  gpupool ps --all  for its state",
            )
        if ended.get("state") == "failed_to_start":
            _raise_not_started(ended)
        if "exit_code" in ended:
            return int(ended["exit_code"])
        return 128 + int(ended.get("signal", 0))


class _InterruptCounter:
    """Whether a Ctrl-C is the second within two seconds."""

    def __init__(self) -> None:
        self._last = -SECOND_INTERRUPT_SECONDS

    def is_second(self) -> bool:
        before, self._last = self._last, monotonic()
        return self._last - before < SECOND_INTERRUPT_SECONDS


def _raise_not_started(ended: Mapping[str, str]) -> None:
    message = ended.get("message", "the program could not be started")
    if ended.get("stage") == "exec" and int(ended.get("errno", 0)) == _NOT_FOUND:
        raise CommandNotFound(message, hint="give the program's path, or one that is in PATH")
    raise BadInput(message)


def words_of(line: str) -> dict[str, str]:
    """The key=value words of an answer; `message=` comes last and holds the rest of the line."""
    head, found, message = line.partition("message=")
    pairs = dict(word.split("=", 1) for word in head.split() if "=" in word)
    return pairs | {"message": message} if found else pairs


def _expect(channel: SupervisorChannel, wanted: str) -> str:
    """The next answer that begins with a word; raises for `error`."""
    for line in _answers(channel):
        word, _, rest = line.partition(" ")
        if word == "error":
            raise WrongState(f"the job's supervisor refused: {rest}")
        if word == wanted:
            return rest
    raise WrongState("the job can no longer be attached to: it has just ended")


def _answers(channel: SupervisorChannel) -> Iterator[str]:
    """Answers one by one; what comes after the one wanted stays for later."""
    while True:
        yield from channel.lines()
        if not channel.receive():
            yield from channel.lines()
            return


def _own_descriptors() -> tuple[int, int, int]:
    """0, 1 and 2, each replaced by /dev/null where we were started without it."""
    found = []
    for number in range(3):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            found.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
    return found[0], found[1], found[2]


def _ask_for_terminal(channel: SupervisorChannel, *, with_log: bool) -> list[int]:
    columns, rows = os.get_terminal_size(0)
    errors = () if os.isatty(2) else (2,)  # `2>file` was typed on purpose
    channel.send(f"attach pty {rows} {columns}{' log' if with_log else ''}", errors)
    _expect(channel, "attached")
    return channel.take_descriptors()


def attach_to_job(socket_path: str, *, pty: bool, with_log: bool = False) -> AttachedJob:
    """Gives a waiting job its standard descriptors, which starts it; or a terminal, when `pty` and
    we have one.

    What a terminal shows is written into the job's log too, when `with_log` and its supervisor
    can. A job with a terminal can be attached to again. Raises WrongState when the job cannot be
    attached to. From here to the end of `run_until_exit` (or `close`) signals to this process are
    kept for the program.
    """
    channel = SupervisorChannel(socket_path)
    # From here on: a signal that comes in the instant between the program's start and the first
    # look is the program's.
    signals = SignalQueue()
    try:
        is_terminal = pty and os.isatty(0) and os.isatty(1)
        terminal = _hand_over(channel, pty=is_terminal, with_log=with_log)
    except BaseException:
        channel.close()
        signals.restore()
        raise
    return AttachedJob(channel, signals, terminal)


def _hand_over(channel: SupervisorChannel, *, pty: bool, with_log: bool) -> list[int]:
    channel.send(f"hello {PROTOCOL_MIN} {PROTOCOL_MAX}")
    version = int(_expect(channel, "hello"))
    channel.send("wait")
    _expect(channel, "ok")
    if pty:
        return _ask_for_terminal(channel, with_log=with_log and version >= _LOG_VERSION)
    channel.send("attach fds", _own_descriptors())
    _expect(channel, "attached")
    return []
