"""A program that was started in a running job: its streams, its terminal and its end.

The terminal of the caller is in raw mode while the program has one; signals and the size of the
terminal are passed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import termios
import tty
from collections.abc import Iterator
from typing import Any, Final

from gpupool.base.errors import PoolLost
from gpupool.client.streams.byte_connection import CHUNK, WOULD_BLOCK, ByteConnection
from gpupool.client.streams.frames import (
    ERRORS,
    EXIT,
    INPUT,
    INPUT_END,
    OUTPUT,
    SIGNAL,
    BrokenFrameError,
    FrameReader,
    encode_frame,
    encode_size,
)

#: What is passed on to a program without a terminal; in one these are keys.
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: A pipe of Linux holds as many bytes (pipe(7)).
_READ: Final = 65536


def read_terminal_size(descriptor: int) -> dict[str, int]:
    """Return rows and columns of a terminal, the usual ones where it does not know."""
    rows, columns = struct.unpack("HHHH", fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8)))[:2]
    return {"rows": rows or 24, "columns": columns or 80}


class RemoteProgram:
    """Relays one program: `run` blocks until it has ended, and returns its exit code."""

    def __init__(
        self, stream: ByteConnection, streams: tuple[int, int, int], *, has_terminal: bool
    ) -> None:
        """Make the relay.

        Args:
            stream: the connection to the program's session.
            streams: descriptors of the caller's input, output and errors; -1 for an input that is
                empty.
            has_terminal: the program has a terminal, and the caller's input is one.
        """
        self._stream = stream.socket
        self._early = stream.early
        self._input, self._output, self._errors = streams
        self._has_terminal = has_terminal
        self._frames = FrameReader()
        self._outgoing = bytearray()

    def run(self) -> int:
        """Relay until the program has ended.

        Returns:
            Its exit code; 128 and the signal where one ended it.

        Raises:
            PoolLost: the connection broke before.
        """
        self._stream.setblocking(False)
        with _catch_signals() as (wake, caught), self._raw_terminal():
            return self._relay(wake, caught)

    def _relay(self, wake: int, caught: list[int]) -> int:
        if self._input < 0:
            self._outgoing += encode_frame(INPUT_END)
        code = self._take_frames(self._early)
        while code is None:
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            poll.register(self._stream, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
            if self._input >= 0 and len(self._outgoing) < CHUNK:
                poll.register(self._input, select.POLLIN)
            ready = dict(poll.poll())
            if wake in ready:
                os.read(wake, 512)
                self._pass_signals(caught)
            if self._input in ready:
                self._read_input()
            self._send()
            if ready.get(self._stream.fileno(), 0) & ~select.POLLOUT or self._has_pending():
                code = self._receive()
        return code

    def _has_pending(self) -> bool:
        pending = getattr(self._stream, "pending", None)
        return pending is not None and pending() > 0

    def _pass_signals(self, caught: list[int]) -> None:
        while caught:
            number = caught.pop(0)
            if number == signal.SIGWINCH:
                if self._has_terminal:
                    self._outgoing += encode_size(**read_terminal_size(self._input))
            else:
                self._outgoing += encode_frame(SIGNAL, bytes([number]))

    def _read_input(self) -> None:
        try:
            data = os.read(self._input, _READ)
        except OSError:
            data = b""
        if data:
            self._outgoing += encode_frame(INPUT, data)
        else:
            self._outgoing += encode_frame(INPUT_END)
            self._input = -1

    def _send(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._stream.send(self._outgoing)]
        except WOULD_BLOCK:
            return
        except OSError:
            # The end that the session has sent before is still to be read.
            self._outgoing.clear()

    def _receive(self) -> int | None:
        try:
            data = self._stream.recv(CHUNK)
        except WOULD_BLOCK:
            return None
        except OSError as error:
            raise _make_lost_error(error.strerror or str(error)) from error
        if not data:
            raise _make_lost_error("the connection to the program ended")
        return self._take_frames(data)

    def _take_frames(self, data: bytes) -> int | None:
        """Write what the program has written; returns its exit code once it has ended."""
        try:
            frames = self._frames.feed(data)
        except BrokenFrameError as error:
            raise _make_lost_error(str(error)) from error
        for kind, content in frames:
            if kind == OUTPUT:
                _write_all(self._output, content)
            elif kind == ERRORS:
                _write_all(self._errors, content)
            elif kind == EXIT:
                return find_exit_code(json.loads(content))
        return None

    @contextlib.contextmanager
    def _raw_terminal(self) -> Iterator[None]:
        if not self._has_terminal:
            yield
            return
        before = termios.tcgetattr(self._input)
        terminal = self._input
        try:
            tty.setraw(terminal, termios.TCSANOW)
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def find_exit_code(end: dict[str, Any]) -> int:
    """Return the exit code that a shell would show for a program's end."""
    if end.get("code") is not None:
        return int(end["code"])
    return 128 + int(end.get("signal") or 0)


def _make_lost_error(reason: str) -> PoolLost:
    return PoolLost(f"the program cannot be followed: {reason}", hint="gpupool ps")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextlib.contextmanager
def _catch_signals() -> Iterator[tuple[int, list[int]]]:
    """Yield a descriptor that is readable when a signal has come, and the list of signals."""
    caught: list[int] = []
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = {}
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        for number in (*_PASSED_ON, signal.SIGWINCH):
            # What is ignored stays ignored: that is what nohup means.
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, lambda one, _frame: caught.append(one))
        yield read, caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(read)
        os.close(write)
