"""uvicorn's HTTP protocol, plus what the kernel knows of the caller and two bounds.

Asks for SO_PEERCRED and SO_PEERGROUPS once per connection and puts the `PeerProcess` into every
scope. A request's head is bounded in size and in time: uvicorn bounds neither.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import socket
import struct
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.refusal import RefusedConnection
from gpupool.server.http.switching import SwitchableConnection
from gpupool.tenancy.access import PEER_EXTENSION, PeerProcess
from gpupool.workspaces.upgrade import UPGRADE_EXTENSION

logger = logging.getLogger(__name__)

SO_PEERGROUPS = 59  # asm-generic/socket.h; Linux 4.13
#: Bounds of a request's head: tokens and long queries fit many times, and a slow sender of one byte
#: a minute does not hold a connection for ever.
HEAD_LIMIT_BYTES = 64 << 10
HEAD_SECONDS = 30.0
_PYTHON_LIMIT_BYTES = 1024  # what socket.getsockopt takes; more groups go through libc
_GROUPS_LIMIT = 65536  # NGROUPS_MAX, limits.h
_libc = ctypes.CDLL(None, use_errno=True)


class PeerProtocol(HttpToolsProtocol):
    """One connection, counted in `connections`; one that is too many is handed to `Refusing`."""

    def __init__(self, *args: Any, connections: OpenConnections, **more: Any) -> None:
        super().__init__(*args, **more)
        self._connections = connections
        self._admitted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._peer = peer_of(transport.get_extra_info("socket"))
        self._address = _read_address(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        refusal = self._connections.admit(self._peer, self._address)
        if refusal is not None:
            logger.warning("refused a connection: %s", refusal.message)
            transport.set_protocol(RefusedConnection(transport, refusal))
            return
        self._admitted = True
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._admitted:
            self._admitted = False
            self._connections.note_end(self._peer, self._address)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._stop_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        extensions: dict[str, Any] = {UPGRADE_EXTENSION: SwitchableConnection(self)}
        if self._peer is not None:
            extensions[PEER_EXTENSION] = self._peer
        self.scope["extensions"] = extensions

    def on_url(self, url: bytes) -> None:
        self._count_head_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head_bytes(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the application answers the request, and may take the connection over."""

    def _count_head_bytes(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_LIMIT_BYTES:
            raise ValueError(
                "the head of the request is too long"
            )  # the parser turns it into a 400

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _read_address(transport: asyncio.Transport) -> str:
    """Where a TCP caller calls from; the same for every caller over a Unix socket."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else ""


def peer_of(connection: socket.socket) -> PeerProcess | None:
    """The process at the other end of a Unix socket, as it was when it connected; None for TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    pid, uid, gid = struct.unpack(
        "iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    )
    return PeerProcess(pid, uid, gid, peer_groups(connection))


def peer_groups(connection: socket.socket) -> tuple[int, ...]:
    """The peer's supplementary groups. Raises OSError on a kernel without SO_PEERGROUPS."""
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _PYTHON_LIMIT_BYTES)
    except OSError as error:
        if error.errno != errno.ERANGE:
            raise
        raw = _read_many_groups(connection.fileno())
    return struct.unpack(f"{len(raw) // 4}I", raw)


def _read_many_groups(fd: int) -> bytes:
    buffer = (ctypes.c_uint32 * _GROUPS_LIMIT)()
    size = ctypes.c_uint32(ctypes.sizeof(buffer))
    if _libc.getsockopt(fd, socket.SOL_SOCKET, SO_PEERGROUPS, buffer, ctypes.byref(size)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return bytes(buffer)[: size.value]
