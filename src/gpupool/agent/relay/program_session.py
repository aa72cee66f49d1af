"""Runs one program in a job, with pipes or a terminal, and relays it in frames (`client.streams.frames`).

Nothing is read that cannot be passed on: a slow client slows the program down, and a program that
does not read its input slows the client down.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Mapping
from typing import Any, Final

from gpupool.agent.relay.child import find_shell, start_child
from gpupool.agent.relay.descendants import end_descendants, reap_children
from gpupool.client.streams.frames import (
    ERRORS,
    EXIT,
    INPUT,
    INPUT_END,
    OUTPUT,
    RESIZE,
    SIGNAL,
    BrokenFrameError,
    FrameReader,
    decode_size,
    encode_frame,
)

#: Bytes read at once: a pipe of Linux holds as many (pipe(7)).
_CHUNK: Final = 65536
#: Bytes that wait for a slow side before the other one is read no more.
_MOST_WAITING: Final = 4 * _CHUNK
#: Between the hang-up of a program whose client has left, and its end.
_HANG_UP_SECONDS: Final = 2.0


class ProgramSession:
    """One program and its stream: `run` blocks until it is over."""

    def __init__(self, request: Mapping[str, Any], stream: socket.socket, command: int) -> None:
        """Make the session; starts nothing.

        Args:
            request: what the agent asked for.
            stream: the connection to the client.
            command: a pidfd of the job's command: the session ends with it.
        """
        self._request = request
        self._stream = stream
        self._command = command
        self._frames = FrameReader()
        #: Frames for the client, and bytes for the program.
        self._outgoing = bytearray()
        self._typed = bytearray()
        self._is_input_over = False
        self._is_client_gone = False
        #: The program's input, and by descriptor the kind of its output.
        self._input = -1
        self._outputs: dict[int, int] = {}
        self._child = 0
        self._child_end = -1

    def run(self) -> None:
        """Start the program and relay it; returns when nothing of it is to be passed on."""
        self._start()
        self._stream.setblocking(False)
        try:
            status = self._relay()
            self._finish(status)
        finally:
            if self._is_client_gone or not self._request["cgroups"]:
                # Without a cgroup the supervisor would not find what the program left behind.
                end_descendants()

    def _start(self) -> None:
        request = self._request
        environment = dict(request["environment"])
        argv = list(request["argv"]) or find_shell()
        size = request["terminal"]
        if size is not None:
            environment["TERM"] = request["term"]
            main, side = pty.openpty()
            self._resize(side, size["rows"], size["columns"])
            streams = (side, side, side)
            self._input = main
            self._outputs = {main: OUTPUT}
        else:
            read_in, self._input = os.pipe()
            read_out, write_out = os.pipe()
            read_errors, write_errors = os.pipe()
            streams = (read_in, write_out, write_errors)
            self._outputs = {read_out: OUTPUT, read_errors: ERRORS}
        self._child = start_child(
            argv, request["directory"], environment, streams, has_terminal=size is not None
        )
        self._child_end = os.pidfd_open(self._child)
        for one in set(streams):
            os.close(one)
        for one in {self._input, *self._outputs}:
            os.set_blocking(one, False)

    def _relay(self) -> int | None:
        """Pass bytes on until the program has ended; returns its wait status, None if killed."""
        while True:
            poll = select.poll()
            poll.register(self._child_end, select.POLLIN)
            poll.register(self._command, select.POLLIN)
            self._register_streams(poll)
            ready = dict(poll.poll())
            if self._command in ready:
                self._is_client_gone = True  # the job has ended: nothing of it may stay
                return None
            events = ready.get(self._stream.fileno(), 0)
            if events & ~select.POLLOUT:
                self._read_client()
            if self._is_client_gone:
                self._hang_up()
                return None
            for one in [each for each in self._outputs if each in ready]:
                self._read_output(one)
            if self._typed or self._is_input_over:
                self._write_input()
            self._send()
            if self._child_end in ready:
                return os.waitpid(self._child, 0)[1]

    def _register_streams(self, poll: select.poll) -> None:
        wanted = select.POLLIN if len(self._typed) < _MOST_WAITING else 0
        if self._outgoing:
            wanted |= select.POLLOUT
        poll.register(self._stream, wanted)
        if len(self._outgoing) < _MOST_WAITING:
            for one in self._outputs:
                poll.register(one, select.POLLIN)
        if self._typed and self._input >= 0:
            # A terminal is one descriptor for both directions.
            both = self._input in self._outputs and len(self._outgoing) < _MOST_WAITING
            poll.register(self._input, select.POLLOUT | (select.POLLIN if both else 0))

    def _read_client(self) -> None:
        try:
            data = self._stream.recv(_CHUNK)
            frames = self._frames.feed(data)
        except BlockingIOError:
            return
        except (OSError, BrokenFrameError):
            data = b""
            frames = []
        if not data:
            self._is_client_gone = True
        for kind, content in frames:
            self._handle_frame(kind, content)

    def _handle_frame(self, kind: int, content: bytes) -> None:
        if kind == INPUT:
            self._typed += content
        elif kind == INPUT_END:
            self._is_input_over = True
        elif kind == RESIZE and self._request["terminal"] is not None:
            with contextlib.suppress(BrokenFrameError):
                self._resize(self._input, *decode_size(content))
        elif kind == SIGNAL and content and 0 < content[0] < signal.NSIG:
            self._signal(content[0])

    def _resize(self, terminal: int, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, number)

    def _read_output(self, descriptor: int) -> bool:
        """Take a piece of output; False: there is none now."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # a terminal that no process has open any more
        if data:
            self._outgoing += encode_frame(self._outputs[descriptor], data)
            return True
        del self._outputs[descriptor]
        if descriptor != self._input:
            os.close(descriptor)
        return False

    def _write_input(self) -> None:
        if self._input < 0:
            self._typed.clear()
            return
        try:
            while self._typed:
                del self._typed[: os.write(self._input, self._typed[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self._typed.clear()
        if self._is_input_over and self._request["terminal"] is None:
            os.close(self._input)
            self._input = -1

    def _send(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._stream.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:
            self._is_client_gone = True

    def _finish(self, status: int | None) -> None:
        """Send what is left of the output, and how the program ended."""
        if status is None or self._is_client_gone:
            return
        for one in list(self._outputs):
            while one in self._outputs and self._read_output(one):
                if not self._send_rest():
                    return
        end = {
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        }
        self._outgoing += encode_frame(EXIT, json.dumps(end).encode())
        if not self._send_rest():
            return
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)
            # Until the client has read it: a connection that is closed with bytes unread is reset,
            # and the last frames are lost with it.
            self._stream.settimeout(_HANG_UP_SECONDS)
            while self._stream.recv(_CHUNK):
                continue

    def _send_rest(self) -> bool:
        """Send all that waits, however late the client reads it: a person may be at a pager.

        Returns:
            Whether it was sent; False: the client has left, or the job has ended.
        """
        poll = select.poll()
        poll.register(self._stream, select.POLLOUT)
        poll.register(self._command, select.POLLIN)
        self._send()
        while self._outgoing and not self._is_client_gone:
            if self._command in dict(poll.poll()):
                return False
            self._send()
        return not self._is_client_gone

    def _hang_up(self) -> None:
        """End the program whose client has left, as the end of a terminal would."""
        self._signal(signal.SIGHUP)
        poll = select.poll()
        poll.register(self._child_end, select.POLLIN)
        deadline = time.monotonic() + _HANG_UP_SECONDS
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        reap_children()
