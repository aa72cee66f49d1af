"""What a standby does ahead of a takeover: connected, composed, everything read once. Decision 0024.

Nothing of it is truth: taking over reads the pool anew. What is done ahead does not depend on the pool's state:
connections and logins at PostgreSQL, statements that are compiled once, and the first request.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading

from starlette.types import Message, Scope

from gpupool.base.errors import Deposed, DiskFull, GpupoolError, PoolHeldElsewhere, StoreBusy, Unavailable
from gpupool.base.phases import Phases
from gpupool.host.opening import Composed, Opened, compose_pool, lead, open_pool
from gpupool.host.state import Marker, StateDir
from gpupool.server.app import create_app
from gpupool.server.config import ServerConfig
from gpupool.server.migrate import is_current

logger = logging.getLogger("gpupool")

#: Database connections that are open when this server begins to lead; clients come all at once then.
CONNECTIONS = 4
#: Seconds until a standby tries again to prepare itself.
AGAIN_SECONDS = 5.0
_PASSING = (PoolHeldElsewhere, Deposed, StoreBusy, DiskFull)


def is_passing(error: GpupoolError) -> bool:
    """Whether a standby that could not take over may go on standing by: another was quicker, or the database failed."""
    return isinstance(error, _PASSING) or type(error) is Unavailable


class Warm:
    """The pool that a standby has ready. `keep` runs on the event loop, `open` in any thread."""

    def __init__(self, state: StateDir, marker: Marker) -> None:
        self._state, self._marker = state, marker
        self._lock = threading.Lock()
        self._ready: Composed | None = None
        self._closed = False

    async def keep(self) -> None:
        """Have a pool ready; tries until there is one. Is cancelled where the takeover comes first."""
        while self._ready is None:
            try:
                await asyncio.to_thread(self._make)
            except GpupoolError as error:
                logger.info("the standby is not prepared, tried again in %g s: %s", AGAIN_SECONDS, error.message)
            if self._ready is None:
                await asyncio.sleep(AGAIN_SECONDS)
        await _rehearse(self._ready)
        # Else the first collection of a leader looks at every module and route: 0.1 s of a processor.
        gc.collect()
        gc.freeze()

    def open(self) -> Opened:
        """Take the pool over, by what is ready where it still fits the database."""
        composed, phases = self._taken(), Phases()
        if composed is None:
            return open_pool(self._state, self._marker)
        if not is_current(composed.engine):  # a newer version has led meanwhile
            composed.dispose()
            return open_pool(self._state, self._marker)
        phases.mark("tables")
        return lead(composed, phases)

    def close(self) -> None:
        """Give up what is ready. One that is still being made is given up when it is."""
        self._closed = True
        composed = self._taken()
        if composed is not None:
            composed.dispose()

    def _taken(self) -> Composed | None:
        with self._lock:
            composed, self._ready = self._ready, None
        return composed

    def _make(self) -> None:
        composed = compose_pool(self._state, self._marker)
        try:
            if not is_current(composed.engine):
                raise Unavailable("the database is not prepared for this version", hint="gpupool doctor")
            _connect(composed)
            composed.services.allocations.placer.load()
        except BaseException:
            composed.dispose()
            raise
        with self._lock:
            if not self._closed:
                self._ready = composed
                return
        composed.dispose()


def _connect(composed: Composed) -> None:
    """Open connections that stay in the engine's pool."""
    opened = [composed.engine.connect() for _ in range(CONNECTIONS)]
    for connection in opened:
        connection.close()


async def _rehearse(composed: Composed) -> None:
    """Ask an application that answers no one for its health: the first request imports and builds what all need."""
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
