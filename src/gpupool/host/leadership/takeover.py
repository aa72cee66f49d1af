"""Prepares a standby for a takeover: connects, composes, and reads everything once. Decision 0024.

Taking over reads the pool anew. What is prepared does not depend on the pool's state: connections
and logins at PostgreSQL, compiled statements, and the first request.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading

from starlette.types import Message, Scope

from gpupool.base.errors import (
    DiskFull,
    GpupoolError,
    LostLeadership,
    PoolHeldElsewhere,
    SecretKeyMissing,
    SecretKeyUnusable,
    SecretKeyWrong,
    ServiceUnavailable,
    StoreBusy,
)
from gpupool.base.phases import PhaseTimer
from gpupool.host.leadership.store_opening import (
    ComposedPool,
    OpenedPool,
    compose_pool,
    lead_pool,
    open_pool,
)
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.server.app import create_app
from gpupool.server.config import ServerConfig
from gpupool.server.migrate import is_current
from gpupool.store.database import Store

logger = logging.getLogger("gpupool")

#: Database connections that are open when this server begins to lead: all clients come at once.
CONNECTIONS = 4
#: Seconds between two looks at the key of secrets: the leader makes it with the first secret.
KEY_SECONDS = 60.0
#: Seconds until a standby tries again to prepare itself.
AGAIN_SECONDS = 5.0
_PASSING = (PoolHeldElsewhere, LostLeadership, StoreBusy, DiskFull)


def is_passing(error: GpupoolError) -> bool:
    """Whether a standby whose takeover failed may stand by again."""
    # Another server was faster, or the database failed for a moment.
    return isinstance(error, _PASSING) or type(error) is ServiceUnavailable


class WarmPool:
    """The pool that a standby has ready.

    `keep_ready` runs on the event loop, the other methods in any thread.
    """

    def __init__(self, state: StateDir, marker: PoolMarker) -> None:
        self._state = state
        self._marker = marker
        self._lock = threading.Lock()
        self._ready: ComposedPool | None = None
        self._closed = False

    async def keep_ready(self) -> None:
        """Retry until a pool is ready. Cancelled if the takeover comes first."""
        while self._ready is None:
            try:
                await asyncio.to_thread(self._compose_ready)
            except GpupoolError as error:
                logger.info(
                    "the standby is not prepared, tried again in %g s: %s",
                    AGAIN_SECONDS,
                    error.message,
                )
            if self._ready is None:
                await asyncio.sleep(AGAIN_SECONDS)
        await _rehearse_request(self._ready)
        # Otherwise a leader's first garbage collection visits every module and route: 0.1 s of
        # processor time.
        gc.collect()
        gc.freeze()

    async def stay_ready(self) -> None:
        """Get a pool ready, and watch its key until the takeover cancels this."""
        await self.keep_ready()
        if self._ready is not None:
            await _watch_key(self._ready.services.store)

    def take_over(self) -> OpenedPool:
        """Take over the pool, with what is ready if it still fits the database. Blocks."""
        composed = self._pop_ready()
        phases = PhaseTimer()
        if composed is None:
            return open_pool(self._state, self._marker)
        if not is_current(composed.engine):  # a newer version has led meanwhile
            composed.dispose()
            return open_pool(self._state, self._marker)
        phases.mark_phase("tables")
        return lead_pool(composed, phases)

    def close(self) -> None:
        """Dispose of what is ready, and later of what is being composed now."""
        self._closed = True
        composed = self._pop_ready()
        if composed is not None:
            composed.dispose()

    def _pop_ready(self) -> ComposedPool | None:
        with self._lock:
            composed = self._ready
            self._ready = None
        return composed

    def _compose_ready(self) -> None:
        composed = compose_pool(self._state, self._marker)
        try:
            if not is_current(composed.engine):
                raise ServiceUnavailable(
                    "the database is not prepared for this version", hint="gpupool doctor"
                )
            _open_connections(composed)
            composed.services.allocations.placer.load()
        except BaseException:
            composed.dispose()
            raise
        with self._lock:
            if not self._closed:
                self._ready = composed
                return
        composed.dispose()


async def _watch_key(store: Store) -> None:
    """Log whether this standby has the key of the pool's secrets, whenever that changes."""
    before = ""
    while True:
        try:
            found = await asyncio.to_thread(find_key_problem, store)
        except GpupoolError as error:
            # The lookout tells of a database that does not answer.
            logger.debug("the key of the secrets was not looked at: %s", error.message)
        else:
            if found and found != before:
                logger.warning("this standby could not use the pool's secrets: %s", found)
            elif before and not found:
                logger.info("this standby has the key of the pool's secrets")
            before = found
        await asyncio.sleep(KEY_SECONDS)


def find_key_problem(store: Store) -> str:
    """Return why a standby could not use the pool's secrets; empty: it could."""
    with store.read() as connection:
        try:
            store.secrets.check_key(connection)
        except (SecretKeyMissing, SecretKeyUnusable, SecretKeyWrong) as error:
            return f"{error.code}: {error.message}; {error.hint}"
    return ""


def _open_connections(composed: ComposedPool) -> None:
    """Open connections that stay in the engine's pool."""
    opened = [composed.engine.connect() for _ in range(CONNECTIONS)]
    for connection in opened:
        connection.close()


async def _rehearse_request(composed: ComposedPool) -> None:
    """Send a request to an application without listeners.

    The first request imports and builds what all requests need.
    """
    app = create_app(ServerConfig(state_dir=""), composed.services)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Message) -> None:
        return

    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/healthz", "raw_path": b"/healthz", "root_path": "", "query_string": b"", "headers": [],
        "client": None, "server": ("standby", 0), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
