"""WebSockets that are open between callers and replicas. On the event loop.

Frames pass unread, so that extensions and messages cost nothing. Their heads are followed, because
a close frame may only stand between two of them. Decision 0119.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gpupool.serving.answers import RIGHT_ENDED
from gpupool.serving.frames import FrameTracker, make_close_frame
from gpupool.workspaces.pipes import PipeEnd

logger = logging.getLogger(__name__)

#: RFC 6455, 7.4.1: the replica or the server goes away; the caller's right has ended.
GOING_AWAY: Final = 1001
POLICY_VIOLATION: Final = 1008
#: Seconds for the frame under way, and for a caller that does not read, before the connection is cut.
CLOSE_SECONDS: Final = 2.0


class ServiceSocket(PipeEnd):
    """The caller's end of a WebSocket, after the handshake."""

    def __init__(self) -> None:
        super().__init__()
        self._from_replica = FrameTracker()
        self._from_caller = FrameTracker()
        self._code = 0
        self._closed = asyncio.Event()
        self.add_listener(self._closed.set)

    async def wait_closed(self) -> None:
        """Wait until the connection of the caller has ended."""
        await self._closed.wait()

    def end(self, code: int) -> None:
        """Close behind the frame that is under way, at the latest after two seconds. Idempotent."""
        if self._code or self.transport is None or self.transport.is_closing():
            return
        self._code = code
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.transport.abort)
        if self._from_replica.is_between:
            self._finish()

    def write(self, data: bytes | memoryview) -> None:
        """Pass on what the replica has sent; nothing behind the last frame."""
        if not self._code:
            self._from_replica.feed(data)
            super().write(data)
        elif not self._from_replica.is_between:
            self._write_rest(memoryview(data))

    def write_end(self) -> None:
        """Close: the replica has ended its side."""
        self.close()

    def close(self) -> None:
        """Close: the replica's connection has ended. A frame that it did not end breaks off."""
        if self._from_replica.is_between:
            self.end(GOING_AWAY)
        else:
            super().close()

    def data_received(self, data: bytes) -> None:
        self._from_caller.feed(data)
        super().data_received(data)

    def _write_rest(self, data: memoryview) -> None:
        """Pass on the rest of the frame that is under way, and close behind it."""
        super().write(data[: self._from_replica.feed_one(data)])
        if self._from_replica.is_between:
            self._finish()

    def _finish(self) -> None:
        """Send each side the close frame that it lacks, and close both."""
        if not self._from_replica.has_closed:
            super().write(make_close_frame(self._code, from_client=False))
        is_open = self._from_caller.is_between and not self._from_caller.has_closed
        if self._other is not None and is_open:
            self._other.write(make_close_frame(self._code, from_client=True))
        super().close()


@dataclass(frozen=True)
class _Visit:
    """The right by which a WebSocket is open; `recheck` raises one of `RIGHT_ENDED` once it has ended."""

    service: int
    number: int
    recheck: Callable[[], Awaitable[None]]


class OpenSockets:
    """The WebSockets of all services."""

    def __init__(self) -> None:
        self._open: dict[ServiceSocket, _Visit] = {}

    async def hold(
        self,
        socket: ServiceSocket,
        service: int,
        number: int,
        recheck: Callable[[], Awaitable[None]],
    ) -> None:
        """Keep a WebSocket in view until it has closed."""
        self._open[socket] = _Visit(service, number, recheck)
        try:
            await socket.wait_closed()
        finally:
            del self._open[socket]

    def end_replica(self, service: int, number: int) -> None:
        """Close the WebSockets of a replica that ends now."""
        for socket, visit in list(self._open.items()):
            if (visit.service, visit.number) == (service, number):
                socket.end(GOING_AWAY)

    async def check_callers(self) -> None:
        """Close the WebSockets whose caller has lost the right."""
        for socket, visit in list(self._open.items()):
            try:
                await visit.recheck()
            except RIGHT_ENDED as error:
                logger.info("a WebSocket of service %d is closed: %s", visit.service, error.message)
                socket.end(POLICY_VIOLATION)
