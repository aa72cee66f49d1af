"""Opens a loopback port for the console of a pool, when a user asks for the console.

A pool that listens on TCP already has a place for it. Decision 0098.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from gpupool.host.leadership.front import ListenerFront
from gpupool.server.console.listener import ConsoleConnections
from gpupool.server.http.listeners import BoundSocket, TcpListener
from gpupool.server.http.serving import serve_listeners
from gpupool.tenancy.sessions.cookies import is_loopback
from gpupool.tenancy.sessions.service import IDLE_SECONDS

logger = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"


class ConsoleListener:
    """The console's own listener of one server. Used on the event loop only.

    It closes when it was not used for as long as a session may be idle: then no session that was
    opened through it counts any more.

    Args:
        front: The server's other sockets; the listener answers by the same application.
        idle_seconds: How long it stays open without a request.
    """

    def __init__(self, front: ListenerFront, idle_seconds: float = IDLE_SECONDS) -> None:
        self._front = front
        self._idle_seconds = idle_seconds
        self._connections = ConsoleConnections(front, self._note_use)
        self._opening = asyncio.Lock()
        self._serving: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._address = ""
        self._used_at = 0.0

    async def open(self) -> str:
        """Return the console's URL, after opening a port for it where none is suitable."""
        address = choose_address([one.address for one in self._front.sockets])
        if address is not None:
            return address
        async with self._opening:
            self._note_use()
            if self._serving is None or self._stop.is_set() or self._serving.done():
                await self.close()
                await self._start()
        return self._address

    async def close(self) -> None:
        """Stop listening within about two seconds. Idempotent."""
        self._stop.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._serving is not None:
            await asyncio.wait([self._serving])
            self._serving = None

    async def _start(self) -> None:
        self._stop = asyncio.Event()
        listening: asyncio.Future[Sequence[BoundSocket]] = (
            asyncio.get_running_loop().create_future()
        )
        self._serving = asyncio.create_task(
            serve_listeners(
                self._connections,
                [TcpListener(LOOPBACK, 0)],
                stop=self._stop,
                on_ready=listening.set_result,
                connections=self._front.connections,
            )
        )
        await asyncio.wait((listening, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if not listening.done():
            await self._serving  # raises why nothing listens
        self._address = listening.result()[0].address
        logger.info("the console is served at %s", self._address)
        self._await_idleness(self._idle_seconds)

    def _await_idleness(self, seconds: float) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        left = self._used_at + self._idle_seconds - time.monotonic()
        if self._connections.open or left > 0:
            self._await_idleness(max(left, self._idle_seconds / 60))
            return
        logger.info("the console's port at %s was not used and is closed", self._address)
        self._stop.set()

    def _note_use(self) -> None:
        self._used_at = time.monotonic()


def choose_address(addresses: Sequence[str]) -> str | None:
    """Return the URL at which a browser reaches the console; None where no listener is suitable.

    A session needs HTTPS or loopback, so plain HTTP of another address is reached by loopback.
    """
    for address in addresses:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port is not None else ""
        if parts.scheme == "https":
            # A certificate names the machine, not its addresses.
            return f"https://{socket.getfqdn()}{port}" if _is_wildcard(parts.hostname) else address
        if parts.scheme == "http" and _is_wildcard(parts.hostname):
            return f"http://{LOOPBACK}{port}"
        if parts.scheme == "http" and is_loopback(parts.netloc):
            return address
    return None


def _is_wildcard(host: str | None) -> bool:
    return host in ("0.0.0.0", "::")
