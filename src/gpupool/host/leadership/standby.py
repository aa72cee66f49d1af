"""Runs a standby: it answers where the leader is, and waits for the leader's lease to expire.

It writes nothing. What it has read of the pool (`host.leadership.takeover`) shortens the takeover,
but no answer is made of it. Decisions 0023 and 0024.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool import __version__
from gpupool.base.errors import BadOption, GpupoolError, StandbyServer
from gpupool.base.supervision import supervised_task
from gpupool.host.leadership.front import ListenerFront
from gpupool.host.state.directory import PoolMarker
from gpupool.server.http.listeners import BoundSocket
from gpupool.server.http.problems import problem_response
from gpupool.store.engines import is_postgres, lease_engine
from gpupool.store.failures import store_errors
from gpupool.store.leadership import LeaderRecord, find_leader, read_leader
from gpupool.store.tables import pool

logger = logging.getLogger("gpupool")

#: Seconds between two queries for the leader's lease.
ASK_SECONDS = 0.5


@dataclass
class LeaderView:
    """What a standby knows of the leader; `error` says why its last query failed."""

    leader: LeaderRecord | None = None
    error: str = ""

    @property
    def may_lead(self) -> bool:
        """Whether the lease has expired. False without an answer: the leader may still lead."""
        return not self.error and (self.leader is None or self.leader.left_seconds <= 0)

    @property
    def pause_seconds(self) -> float:
        """Seconds until the next query: when the lease ends, if that is sooner."""
        left = (
            self.leader.left_seconds if self.leader is not None and not self.error else ASK_SECONDS
        )
        return min(ASK_SECONDS, max(0.01, left + 0.01))


def check_allowed(marker: PoolMarker) -> None:
    """Raise BadOption for a standby of a pool that can have one server only."""
    if marker.standby and not is_postgres(marker.store):
        raise BadOption(
            "--standby needs a PostgreSQL database: a pool on SQLite has one server, which holds the file's lock",
            hint="gpupool up --standby --store postgresql://USER@HOST/DATABASE",
        )


def find_advertised_address(marker: PoolMarker) -> str:
    """Return where clients on other machines reach this server.

    That is its first TCP listener, else its host's name and pid for people.
    """
    host = socket.gethostname()
    if not marker.listeners:
        return f"{host} (pid {os.getpid()})"
    name, _, port = marker.listeners[0].rpartition(":")
    scheme = "https" if marker.tls_cert else "http"
    return f"{scheme}://{host if name.strip('[]') in ('', '0.0.0.0', '::') else name}:{port}"


def read_stored_pool_id(url: str) -> str | None:
    """Return the id of the pool that a PostgreSQL database holds; None where it holds none yet."""
    engine = lease_engine(url, "gpupool look")
    try:
        with store_errors(), engine.connect() as connection:
            if not sa.inspect(connection).has_table(pool.name):
                return None
            return connection.execute(sa.select(pool.c.pool_id)).scalar_one_or_none()
    finally:
        engine.dispose()


def adopt_stored_pool(marker: PoolMarker) -> PoolMarker:
    """Return the marker with the id of the pool in its database.

    The state directory of a second server makes no new pool.
    """
    found = (
        read_stored_pool_id(marker.store)
        if marker.store is not None and is_postgres(marker.store)
        else None
    )
    return marker if found is None else replace(marker, pool_id=found)


class LeaderLookout:
    """Queries the leader's lease over one connection that is kept. One thread at a time."""

    def __init__(self, url: str) -> None:
        self._engine = lease_engine(url, "gpupool standby")
        self._connection: sa.Connection | None = None
        self.view = LeaderView()

    def query_leader(self) -> LeaderView:
        """Query the database for the leader. Blocks for some 2 s at most."""
        before = self.view
        try:
            with store_errors():
                self.view = LeaderView(self._read_leader())
        except GpupoolError as error:
            self._drop_connection()
            self.view = replace(before, error=error.message)
            if error.message != before.error:
                logger.error("the standby cannot see who leads: %s", error.message)
        return self.view

    def close(self) -> None:
        self._drop_connection()
        self._engine.dispose()

    def _read_leader(self) -> LeaderRecord | None:
        # A new connection is a process and a login at PostgreSQL, and what it finds by inspection
        # four more queries.
        if self._connection is not None and self.view.leader is not None:
            return read_leader(self._connection)
        self._connection = self._connection or self._engine.connect()
        return find_leader(self._connection)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(DBAPIError):  # the failure is told already
                self._connection.close()
            self._connection = None


async def stand_by(
    lookout: LeaderLookout,
    front: ListenerFront,
    stop: asyncio.Event,
    on_ready: Callable[[Sequence[BoundSocket], LeaderView], None],
    keep_warm: Callable[[], Awaitable[None]],
) -> None:
    """Answer as a standby; returns once this server may lead, or `stop` is set.

    Args:
        on_ready: called once with the sockets and the first view of the leader.
        keep_warm: runs beside it and is cancelled at the end.
    """
    view = await asyncio.to_thread(lookout.query_leader)
    if view.may_lead:
        return
    bound = await front.show_app(create_standby_app(lambda: lookout.view))
    logger.info("standby; the leader is %s", _format_leader(view))
    on_ready(bound, view)
    warming = asyncio.create_task(supervised_task("standby", keep_warm))
    try:
        while not lookout.view.may_lead and not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), lookout.view.pause_seconds)
            await asyncio.to_thread(lookout.query_leader)
    finally:
        warming.cancel()
    if not stop.is_set():
        late = 0.0 if lookout.view.leader is None else -lookout.view.leader.left_seconds
        logger.info(
            "the lease of %s is over (%.3f s ago); this server takes the pool over",
            _format_leader(lookout.view),
            late,
        )


def _format_leader(view: LeaderView) -> str:
    return "not known" if view.leader is None else view.leader.address


def create_standby_app(view: Callable[[], LeaderView]) -> ASGIApp:
    """Create the application of a standby: `/healthz` works, other paths name the leader."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        now = view()
        answer = _answer_health(now) if scope["path"] == "/healthz" else _answer_refusal(now)
        answer.headers["Gpupool-Version"] = __version__
        await answer(scope, receive, send)

    return app


def _answer_health(now: LeaderView) -> Response:
    body = {
        "ready": False,
        "version": __version__,
        "role": "standby",
        "leader": None if now.leader is None else now.leader.address,
        "well": not now.error,
        "failing": ["database"] if now.error else [],
    }
    return Response(
        json.dumps(body).encode(), 503 if now.error else 200, media_type="application/json"
    )


def _answer_refusal(now: LeaderView) -> Response:
    known = {} if now.leader is None else {"leader": now.leader.address}
    error = StandbyServer(
        f"this server is a standby; the leader is {_format_leader(now)}; nothing was done",
        hint="ask the leader, or give clients every server:  GPUPOOL_URL=https://a:8443,https://b:8443",
        pid=os.getpid(),
        **known,
    )
    return problem_response(error, {"Connection": "close"})
