"""Listening: a Unix socket whose callers the kernel names, and TCP where it is asked for.

uvicorn's protocol parses HTTP; its server is not used, because that one wakes ten times a
second. Here nothing runs without a request. Stopping waits a moment for answers that are
under way, then cancels what only waits (long polls, streams) and returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from gpupool.base.errors import Unavailable
from gpupool.server.connections import Connections
from gpupool.server.listeners import BACKLOG, Bound, Listener, bind
from gpupool.server.problems import problem_response
from gpupool.server.protocol import PeerProtocol
from gpupool.server.tls_door import TlsDoor

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
GRACE_SECONDS = 1.0
CANCEL_SECONDS = 1.0
#: Connections taken from the kernel in one turn of the loop: so many descriptors at most before one is refused.
ACCEPTED_AT_ONCE = 64


class Closing(Protocol):
    """What accepts connections until it is closed."""

    def close(self) -> None: ...


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    *,
    stop: asyncio.Event,
    on_ready: Callable[[Sequence[Bound]], None] | None = None,
    connections: Connections | None = None,
) -> None:
    """Serve until `stop` is set; `on_ready` hears where, once callers are answered.

    Raises PortTaken, PoolAlreadyRunning, StateUnusable, BadOption before anything listens.
    Leaves no socket file behind. Returns within about two seconds of `stop`.
    """
    bound = bind(listeners)
    stopping = Stopping(app)
    config = Config(
        stopping,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    state = ServerState()
    counted = connections or Connections()
    servers = [await _listen(one, config, state, counted) for one in bound]
    try:
        if on_ready is not None:
            on_ready(bound)
        await stop.wait()
    finally:
        await _shut_down(servers, bound, state, stopping)


async def _listen(one: Bound, config: Config, state: ServerState, connections: Connections) -> Closing:
    def protocol() -> PeerProtocol:
        return PeerProtocol(config=config, server_state=state, app_state={}, connections=connections)

    if one.tls is not None:
        return TlsDoor(one.socket, one.tls, protocol, connections)
    server = await asyncio.get_running_loop().create_server(protocol, sock=one.socket, backlog=ACCEPTED_AT_ONCE)
    one.socket.listen(BACKLOG)  # asyncio takes one number for both: the kernel's queue is to be longer
    return server


class Stopping:
    """Lets requests that are cancelled because the server stops end with an answer instead of a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self.stopping = app, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def heard(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, heard)
        except asyncio.CancelledError:
            if not self.stopping or started:
                raise
            stopped = Unavailable("the pool is stopping", hint="ask again when it runs: gpupool up")
            await problem_response(stopped, {"Connection": "close"})(scope, receive, send)


async def _shut_down(
    servers: Sequence[Closing], bound: Sequence[Bound], state: ServerState, stopping: Stopping
) -> None:
    stopping.stopping = True
    for server in servers:
        server.close()
    for one in bound:
        one.remove()
    for connection in list(state.connections):
        connection.shutdown()
    await _finish(set(state.tasks), GRACE_SECONDS)
    for task in set(state.tasks):
        task.cancel()
    await _finish(set(state.tasks), CANCEL_SECONDS)
    for connection in list(state.connections):
        connection.transport.abort()


async def _finish(tasks: set[asyncio.Task[Any]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
