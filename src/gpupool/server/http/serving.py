"""Serve: a Unix socket whose callers the kernel names, and TCP where it is asked for.

uvicorn's protocol parses HTTP; its server is not used, because that one wakes ten times a
second. Here nothing runs without a request. Stopping cancels long polls that only wait, gives
answers that are under way a moment, then cancels the rest (streams) and returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from gpupool.base.errors import ServiceUnavailable
from gpupool.server.http.connections import OpenConnections
from gpupool.server.http.listeners import BACKLOG, BoundSocket, Listener, bind_listeners
from gpupool.server.http.problems import problem_response
from gpupool.server.http.protocol import PeerProtocol
from gpupool.server.http.tls import TlsDoor
from gpupool.tenancy.turns import IDLE_KEY, IdleMark

logger = logging.getLogger(__name__)

#: Seconds: an idle connection is kept for so long; answers under way may take so long when the
#: server stops, and what is cancelled then.
KEEP_ALIVE_SECONDS = 75
GRACE_SECONDS = 1.0
CANCEL_SECONDS = 1.0
#: Connections taken from the kernel in one turn of the loop: so many descriptors at most before one
#: is refused.
ACCEPTED_AT_ONCE = 64


class ClosableListener(Protocol):
    """What accepts connections until it is closed."""

    def close(self) -> None: ...


async def serve_listeners(
    app: ASGIApp,
    listeners: Sequence[Listener],
    *,
    stop: asyncio.Event,
    on_ready: Callable[[Sequence[BoundSocket]], None] | None = None,
    connections: OpenConnections | None = None,
) -> None:
    """Serve until `stop` is set. Leaves no socket file behind; returns within about two seconds.

    Args:
        on_ready: Is called with the sockets once callers are answered.

    Raises:
        PortTaken: The port has a listener. As the others, before anything listens.
        PoolAlreadyRunning: A pool answers on the socket.
        StateUnusable: The socket cannot be made.
        BadOption: The address or the certificate is wrong.
    """
    bound = bind_listeners(listeners)
    stopping = StoppingMiddleware(app)
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
    counted = connections or OpenConnections()
    servers = [await _start_listener(one, config, state, counted) for one in bound]
    try:
        if on_ready is not None:
            on_ready(bound)
        await stop.wait()
    finally:
        await _shut_down(servers, bound, state, stopping)


async def _start_listener(
    one: BoundSocket, config: Config, state: ServerState, connections: OpenConnections
) -> ClosableListener:
    def protocol() -> PeerProtocol:
        return PeerProtocol(
            config=config, server_state=state, app_state={}, connections=connections
        )

    if one.tls is not None:
        return TlsDoor(one.socket, one.tls, protocol, connections)
    server = await asyncio.get_running_loop().create_server(
        protocol, sock=one.socket, backlog=ACCEPTED_AT_ONCE
    )
    # asyncio takes one number for both: the kernel's queue is to be longer.
    one.socket.listen(BACKLOG)
    return server


class StoppingMiddleware:
    """Ends requests that are cancelled because the server stops with an answer, not a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._marks: dict[asyncio.Task[Any], IdleMark] = {}
        self.stopping = False

    def list_idle(self) -> list[asyncio.Task[Any]]:
        """List the tasks whose requests only wait for news."""
        return [task for task, mark in self._marks.items() if mark.is_idle]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        scope[IDLE_KEY] = self._marks[task] = IdleMark()
        try:
            await self._app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            if not self.stopping or started:
                raise
            stopped = ServiceUnavailable(
                "the pool is stopping", hint="ask again when it runs: gpupool up"
            )
            await problem_response(stopped, {"Connection": "close"})(scope, receive, send)
        finally:
            del self._marks[task]


async def _shut_down(
    servers: Sequence[ClosableListener],
    bound: Sequence[BoundSocket],
    state: ServerState,
    stopping: StoppingMiddleware,
) -> None:
    stopping.stopping = True
    for server in servers:
        server.close()
    for one in bound:
        one.remove()
    for connection in list(state.connections):
        connection.shutdown()
    for task in stopping.list_idle():
        task.cancel()
    await _await_tasks(set(state.tasks), GRACE_SECONDS)
    for task in set(state.tasks):
        task.cancel()
    await _await_tasks(set(state.tasks), CANCEL_SECONDS)
    for connection in list(state.connections):
        connection.transport.abort()


async def _await_tasks(tasks: set[asyncio.Task[Any]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
