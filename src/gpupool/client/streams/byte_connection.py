"""Connections of bytes through the server: opened by an upgrade, and relayed.

Imported by the commands that open streams and by the agent that brings them.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
from _socket import socket as Socket  # noqa: N812  # what a connection of `client` has
from typing import Final, cast

from gpupool.client.connection import BrokenConnectionError, PoolConnection
from gpupool.client.messages import read_answer, request_message

#: Seconds until the server has opened a stream; the server itself gives up earlier.
_OPEN_SECONDS: Final = 40.0
#: Bytes read at once.
CHUNK: Final = 1 << 18
#: Bytes that wait for a slow reader before the other side is read no more.
_MOST_WAITING: Final = 1 << 20
_SWITCHING: Final = 101
#: What a side raises that has no bytes, or no room, now: TLS has errors of its own.
WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ByteConnection:
    """A connected socket, and the bytes that came with the answer."""

    def __init__(self, connection: Socket, early: bytes) -> None:
        # `_socket.socket` has no context and no `sendall` of its own with timeouts: wrapped once.
        self.socket = (
            connection
            if isinstance(connection, socket.socket)
            else socket.socket(fileno=connection.detach())
        )
        self.early = early

    @property
    def is_local(self) -> bool:
        """Whether descriptors can be passed over it."""
        return self.socket.family == socket.AF_UNIX

    def read_line(self, seconds: float) -> bytes:
        """Block until a line has come; empty: the connection has ended.

        Raises:
            TimeoutError: nothing came for `seconds`.
        """
        self.socket.settimeout(seconds)
        while b"\n" not in self.early:
            data = self.socket.recv(CHUNK)
            if not data:
                return b""
            self.early += data
        line, _, self.early = self.early.partition(b"\n")
        return line + b"\n"

    def close(self) -> None:
        self.socket.close()


def switch_connection(connection: PoolConnection, path: str) -> tuple[Socket, bytes]:
    """Ask for an upgrade on a connection, and return its socket.

    Raises:
        GpupoolError: the pool answered so.
        TimeoutError, BrokenConnectionError: it did not answer.
    """
    head, payload = request_message("GET", path, None, None, None)
    head += ["Connection: Upgrade", "Upgrade: gpupool-relay"]
    connection.settimeout(_OPEN_SECONDS)
    connection.send(head, payload)
    status, headers = connection.head()
    if status != _SWITCHING:
        body = connection.body("GET", status, headers)
        read_answer(status, headers, body, connection.endpoint)
        raise BrokenConnectionError(f"it answered {status} and opened no stream")
    taken, early = connection.detach()
    taken.settimeout(None)
    return taken, early


class ByteFlow:
    """Bytes from one descriptor to another one, without waiting for either."""

    def __init__(self, source: socket.socket | int, target: socket.socket | int) -> None:
        self.source = source
        self.target = target
        self.waiting = b""
        self.has_ended = False
        self.is_closed = False

    @property
    def wants_read(self) -> bool:
        return not self.has_ended and not self.is_closed and len(self.waiting) < _MOST_WAITING

    @property
    def wants_write(self) -> bool:
        return bool(self.waiting) and not self.is_closed

    def read(self) -> None:
        try:
            data = _read(self.source)
        except WOULD_BLOCK:
            return
        except OSError:
            data = b""
        self.waiting += data
        self.has_ended = not data
        self.pass_on()

    def pass_on(self) -> None:
        """Write what can be written now, and the end after the last byte."""
        try:
            while self.waiting:
                self.waiting = self.waiting[_write(self.target, self.waiting) :]
        except WOULD_BLOCK:
            return
        except OSError:
            self.is_closed = True
            return
        if self.has_ended:
            self.is_closed = True
            _end_writing(self.target)


def relay_bytes(flows: tuple[ByteFlow, ByteFlow]) -> None:
    """Pass bytes on in both directions; blocks until one cannot be written to or both have ended.

    Where the target of an ended direction cannot be closed alone, the relay ends with it.
    """
    for flow in flows:
        for side in (flow.source, flow.target):
            os.set_blocking(side if isinstance(side, int) else side.fileno(), False)
        flow.pass_on()
    while not all(flow.is_closed for flow in flows):
        if any(flow.is_closed and (flow.waiting or _is_tls(flow.target)) for flow in flows):
            return
        poll = select.poll()
        wanted: dict[int, int] = {}
        for flow in flows:
            if flow.wants_read:
                number = _number(flow.source)
                wanted[number] = wanted.get(number, 0) | select.POLLIN
            if flow.wants_write:
                number = _number(flow.target)
                wanted[number] = wanted.get(number, 0) | select.POLLOUT
        for number, events in wanted.items():
            poll.register(number, events)
        ready = dict(poll.poll(0 if any(_has_pending(flow) for flow in flows) else None))
        for flow in flows:
            if flow.wants_read and (ready.get(_number(flow.source)) or _has_pending(flow)):
                flow.read()
            if flow.wants_write and ready.get(_number(flow.target)):
                flow.pass_on()


def _number(side: socket.socket | int) -> int:
    return side if isinstance(side, int) else side.fileno()


def _is_tls(side: socket.socket | int) -> bool:
    return isinstance(side, ssl.SSLSocket)


def _has_pending(flow: ByteFlow) -> bool:
    """Whether TLS has bytes that were read from the network, which `poll` does not see."""
    return (
        flow.wants_read
        and _is_tls(flow.source)
        and cast("ssl.SSLSocket", flow.source).pending() > 0
    )


def _read(side: socket.socket | int) -> bytes:
    return os.read(side, CHUNK) if isinstance(side, int) else side.recv(CHUNK)


def _write(side: socket.socket | int, data: bytes) -> int:
    return os.write(side, data) if isinstance(side, int) else side.send(data)


def _end_writing(side: socket.socket | int) -> None:
    with contextlib.suppress(OSError):
        if isinstance(side, int):
            os.close(side)
        elif not _is_tls(side):
            side.shutdown(socket.SHUT_WR)
