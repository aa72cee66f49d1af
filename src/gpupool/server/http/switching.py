"""Takes a connection from the HTTP protocol over, after the head of a last answer.

The protocol stays what the server's bounds count, and learns of the end of the connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Protocol

from gpupool.base.errors import PoolLost
from gpupool.workspaces.pipes import PipeEnd


class AnsweringCycle(Protocol):
    """The part of uvicorn's record of one request that is needed here."""

    disconnected: bool


class AnsweringFlow(Protocol):
    """The part of uvicorn's flow control that is needed here."""

    write_paused: bool


class AnsweringProtocol(Protocol):
    """The part of uvicorn's HTTP protocol that is needed here."""

    transport: asyncio.Transport

    @property
    def flow(self) -> AnsweringFlow:
        """Whether what is sent to the client piles up."""

    @property
    def cycle(self) -> AnsweringCycle:
        """The request that is answered now."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""


class SwitchableConnection:
    """The `ConnectionUpgrade` of one request."""

    def __init__(self, protocol: AnsweringProtocol) -> None:
        self._protocol = protocol

    def switch(self, head: bytes, end: PipeEnd) -> None:
        """Send the head of an answer; from then on the connection is that of `end`."""
        transport = self._leave()
        lost = end.on_lost

        def note_end(error: Exception | None) -> None:
            self._protocol.connection_lost(error)
            if lost is not None:
                lost(error)

        end.on_lost = note_end
        transport.write(head)
        transport.set_protocol(end)
        end.connection_made(transport)
        if self._protocol.flow.write_paused:
            # By an answer before, which the client has not read: the transport says it only once.
            end.pause_writing()
        if transport.is_closing():
            # The client left while its stream was opened: the other side must end too.
            asyncio.get_running_loop().call_soon(end.connection_lost, None)

    def take_socket(self, head: bytes) -> socket.socket | None:
        """Send the head of an answer, and return the connection itself if it is a Unix socket."""
        connection = self._protocol.transport.get_extra_info("socket")
        if connection is None or connection.family != socket.AF_UNIX:
            return None
        transport = self._leave()
        # What comes next may bring descriptors, which the transport would lose.
        transport.pause_reading()
        transport.write(head)
        if transport.get_write_buffer_size():
            # The head has a hundred bytes: a client that leaves no room for them reads nothing.
            transport.abort()
            raise PoolLost("the client does not read")
        taken = socket.socket(fileno=os.dup(connection.fileno()))
        # Closes the transport's own descriptor; the connection goes on with ours.
        transport.abort()
        return taken

    def _leave(self) -> asyncio.Transport:
        """Let the protocol answer the request no more."""
        self._protocol.cycle.disconnected = True
        return self._protocol.transport
