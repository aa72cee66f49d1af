"""Keeps a server's sockets open while the application behind them changes. Decision 0024.

A standby that takes over keeps its sockets: none is closed, bound or handed over, and the leader
answers callers that wait in the kernel's queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import BoundSocket, Listener
from gpupool.server.http.serving import serve_listeners


class ListenerFront:
    """The sockets of one server and its present application. Used on the event loop only."""

    def __init__(self, listeners: Sequence[Listener], connections: OpenConnections) -> None:
        self.listeners = tuple(listeners)
        self.connections = connections
        self._app: ASGIApp | None = None
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._bound: Sequence[BoundSocket] = ()

    @property
    def sockets(self) -> Sequence[BoundSocket]:
        """The sockets, once they are bound."""
        return self._bound

    @property
    def listening(self) -> bool:
        """Whether the sockets are bound."""
        return bool(self._bound)

    async def show_app(self, app: ASGIApp) -> Sequence[BoundSocket]:
        """Answer by this application from now on; returns the sockets once they are bound.

        Requests that the previous application has begun end there. Raises what
        `server.http.listeners.bind` raises.
        """
        self._app = app
        if self._serving is None:
            listening: asyncio.Future[Sequence[BoundSocket]] = (
                asyncio.get_running_loop().create_future()
            )
            ready = listening.set_result
            self._serving = asyncio.create_task(
                serve_listeners(
                    self,
                    self.listeners,
                    stop=self._stop,
                    on_ready=ready,
                    connections=self.connections,
                )
            )
            await asyncio.wait((listening, self._serving), return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await self._serving  # raises why nothing listens
            self._bound = listening.result()
        return self._bound

    async def close(self) -> None:
        """Stop listening within about two seconds. Idempotent."""
        self._stop.set()
        if self._serving is not None and self._bound:
            await self._serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._app is not None
        await self._app(scope, receive, send)
