"""What listens for a server from when it first answers to its end, whatever stands behind it. Decision 0024.

A standby that takes over keeps its sockets: nothing is closed, bound or handed over, and callers that wait in the
kernel's queue are answered by the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.server.connections import Connections
from gpupool.server.listeners import Bound, Listener
from gpupool.server.serving import serve


class Front:
    """The sockets of one server, and the application that answers on them now. Used on the event loop alone."""

    def __init__(self, listeners: Sequence[Listener], connections: Connections) -> None:
        self.listeners, self.connections = tuple(listeners), connections
        self._app: ASGIApp | None = None
        self._stop = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self._bound: Sequence[Bound] = ()

    @property
    def listening(self) -> bool:
        return bool(self._bound)

    async def show(self, app: ASGIApp) -> Sequence[Bound]:
        """Answer by this application from now on; where, once callers are answered.

        Requests that the one before has begun end there. Raises what `server.listeners.bind` raises.
        """
        self._app = app
        if self._serving is None:
            listening: asyncio.Future[Sequence[Bound]] = asyncio.get_running_loop().create_future()
            ready = listening.set_result
            self._serving = asyncio.create_task(
                serve(self, self.listeners, stop=self._stop, on_ready=ready, connections=self.connections)
            )
            await asyncio.wait((listening, self._serving), return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                await self._serving  # raises why nothing listens
            self._bound = listening.result()
        return self._bound

    async def close(self) -> None:
        """Stop listening, within about two seconds. Idempotent; nothing where it never listened."""
        self._stop.set()
        if self._serving is not None and self._bound:
            await self._serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._app is not None
        await self._app(scope, receive, send)
