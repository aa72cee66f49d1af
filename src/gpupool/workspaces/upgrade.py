"""What the server's HTTP protocol lends to an application that takes a connection over.

The protocol puts a `ConnectionUpgrade` into the scope of each request. It is an extension of ASGI of
our own: a request is authenticated and routed as every other, and after `101 Switching Protocols`
its connection carries bytes. WebSockets pass through it unread, and large answers of jobs too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Protocol

from starlette.requests import HTTPConnection

from gpupool.base.errors import BadInput
from gpupool.workspaces.pipes import PipeEnd

#: Key of the scope's extensions.
UPGRADE_EXTENSION = "gpupool.upgrade"
#: Name of our protocol in `Upgrade:`.
RELAY_PROTOCOL = "gpupool-relay"
#: The answer after which a connection carries bytes.
SWITCH_HEAD = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: gpupool-relay\r\n\r\n"
)


class ConnectionUpgrade(Protocol):
    """Takes the connection of one request over; each method may be called once."""

    def switch(self, head: bytes, end: PipeEnd) -> None:
        """Send the head of an answer; from then on the connection is that of `end`."""

    def take_socket(self, head: bytes) -> socket.socket | None:
        """Send the head of an answer, and return the connection itself.

        None where it is no Unix socket: nothing is sent then.
        """


def find_upgrade(scope: Mapping[str, Any]) -> ConnectionUpgrade | None:
    """Return what takes the connection of a request over; None on a server without it."""
    found: ConnectionUpgrade | None = (scope.get("extensions") or {}).get(UPGRADE_EXTENSION)
    return found


def require_upgrade(connection: HTTPConnection) -> ConnectionUpgrade:
    """Return what takes the connection over. Raises BadInput where `Upgrade:` is not ours."""
    found = find_upgrade(connection.scope)
    if found is None or connection.headers.get("upgrade", "").lower() != RELAY_PROTOCOL:
        raise BadInput(
            "this is a stream: the request has no Upgrade: gpupool-relay",
            hint="gpupool port-forward, exec, ssh and cp open streams",
        )
    return found


async def hand_over(connection: socket.socket, end: PipeEnd) -> None:
    """Let the event loop serve a connected socket by `end`."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.connect_accepted_socket(lambda: end, connection)
