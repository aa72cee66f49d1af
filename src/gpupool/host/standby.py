"""A standby: answers that it does not lead and where the leader is, and waits for the lease to expire. Decision 0023.

It writes nothing and keeps nothing of the pool in memory; once it may lead, the pool is opened as after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool import __version__
from gpupool.base.errors import BadOption, GpupoolError, Standby
from gpupool.host.state import Marker
from gpupool.server.listeners import Bound, Listener
from gpupool.server.problems import problem_response
from gpupool.server.serving import serve
from gpupool.store.engines import is_postgres, lease_engine
from gpupool.store.failures import store_errors
from gpupool.store.leadership import Leader, find_leader
from gpupool.store.tables import pool

logger = logging.getLogger("gpupool")

#: Seconds between two looks at the leader's lease.
ASK_SECONDS = 0.5


@dataclass
class View:
    """What a standby knows of the leader; `error` is why it does not know more now."""

    leader: Leader | None = None
    error: str = ""
    asked: int = field(default=0, compare=False)

    @property
    def may_lead(self) -> bool:
        return not self.error and (self.leader is None or self.leader.left_seconds <= 0)

    @property
    def pause_seconds(self) -> float:
        """Until the next look: when the lease ends, if that is sooner."""
        left = self.leader.left_seconds if self.leader is not None and not self.error else ASK_SECONDS
        return min(ASK_SECONDS, max(0.01, left + 0.01))


def check_allowed(marker: Marker) -> None:
    """Raise BadOption for a standby of a pool that can have one server only."""
    if marker.standby and not is_postgres(marker.store):
        raise BadOption(
            "--standby needs a PostgreSQL database: a pool on SQLite has one server, which holds the file's lock",
            hint="gpupool up --standby --store postgresql://USER@HOST/DATABASE",
        )


def advertised(marker: Marker) -> str:
    """Where clients on other machines reach this server: its first TCP listener, else its machine and socket."""
    host = socket.gethostname()
    if not marker.listeners:
        return f"{host} (pid {os.getpid()})"
    name, _, port = marker.listeners[0].rpartition(":")
    scheme = "https" if marker.tls_cert else "http"
    return f"{scheme}://{host if name.strip('[]') in ('', '0.0.0.0', '::') else name}:{port}"


def stored_pool_id(url: str) -> str | None:
    """The pool that a PostgreSQL database holds; None where it holds none yet."""
    engine = lease_engine(url, "gpupool look")
    try:
        with store_errors(), engine.connect() as connection:
            if not sa.inspect(connection).has_table(pool.name):
                return None
            return connection.execute(sa.select(pool.c.pool_id)).scalar_one_or_none()
    finally:
        engine.dispose()


def of_stored_pool(marker: Marker) -> Marker:
    """The marker with the id of the pool in its database: a state directory of a second server makes no new pool."""
    found = stored_pool_id(marker.store) if marker.store is not None and is_postgres(marker.store) else None
    return marker if found is None else replace(marker, pool_id=found)


def look(engine: sa.Engine) -> View:
    """Ask the database who leads. Blocks for some 2 s at most."""
    try:
        with store_errors(), engine.connect() as connection:
            return View(find_leader(connection))
    except GpupoolError as error:
        return View(error=error.message)


async def stand_by(
    url: str, listeners: Sequence[Listener], stop: asyncio.Event, on_ready: Callable[[Sequence[Bound], View], None]
) -> None:
    """Answer as a standby; returns once this server may lead, or `stop` is set."""
    engine = lease_engine(url, "gpupool standby")
    view, over = await asyncio.to_thread(look, engine), asyncio.Event()
    if view.may_lead:
        engine.dispose()
        return

    async def wait() -> None:
        nonlocal view
        try:
            while not view.may_lead and not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), view.pause_seconds)
                before, view = view, await asyncio.to_thread(look, engine)
                if view.error and view.error != before.error:
                    logger.error("the standby cannot see who leads: %s", view.error)
        finally:
            over.set()

    def ready(bound: Sequence[Bound]) -> None:
        logger.info("standby; the leader is %s", _where(view))
        on_ready(bound, view)

    waiting = asyncio.create_task(wait())
    try:
        await serve(standby_app(lambda: view), listeners, stop=over, on_ready=ready)
    finally:
        waiting.cancel()
        engine.dispose()
    if not stop.is_set():
        logger.info("the lease of %s is over; this server takes the pool over", _where(view))


def _where(view: View) -> str:
    return "not known" if view.leader is None else view.leader.address


def standby_app(view: Callable[[], View]) -> ASGIApp:
    """`/healthz` says that a standby is here; everything else is answered with where the leader is."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        now = view()
        answer = _health(now) if scope["path"] == "/healthz" else _refusal(now)
        answer.headers["Gpupool-Version"] = __version__
        await answer(scope, receive, send)

    return app


def _health(now: View) -> Response:
    body = {
        "ready": False,
        "version": __version__,
        "role": "standby",
        "leader": None if now.leader is None else now.leader.address,
        "well": not now.error,
        "failing": ["database"] if now.error else [],
    }
    return Response(json.dumps(body).encode(), 503 if now.error else 200, media_type="application/json")


def _refusal(now: View) -> Response:
    known = {} if now.leader is None else {"leader": now.leader.address}
    error = Standby(
        f"this server is a standby; the leader is {_where(now)}; nothing was done",
        hint="ask the leader, or give clients every server:  GPUPOOL_URL=https://a:8443,https://b:8443",
        pid=os.getpid(),
        **known,
    )
    return problem_response(error, {"Connection": "close"})
