"""Entrances to running jobs: by right, prepared once, opened by the job's agent."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.service import Allocations
from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import (
    BadInput,
    NoPermission,
    NotFound,
    NotLoggedIn,
    ServiceUnavailable,
    TooManyRequests,
    WrongState,
)
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.service import FleetService
from gpupool.model.tenant import Permission, Principal, UserRole
from gpupool.store.database import Store
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users
from gpupool.tenancy.token_secrets import is_alive
from gpupool.tenancy.users import select_users
from gpupool.wire.workspaces import StreamIn, StreamOut, VisitIn, VisitOut
from gpupool.workspaces.kernels import KernelActivity
from gpupool.workspaces.open_streams import OpenStreams
from gpupool.workspaces.streams import OpenStream, StreamBroker
from gpupool.workspaces.visits import VisitBook, Visitor

#: A prepared stream is opened at once by the client that asked for it.
PREPARED_NS: Final = 30 * NANOS_PER_SECOND
#: Prepared streams of one user that were not opened yet.
PREPARED_AT_MOST: Final = 64


@dataclass(frozen=True)
class Entrance:
    """A running job that a caller may enter."""

    job: str
    name: str
    agent: str


@dataclass(frozen=True)
class _PreparedStream:
    entrance: Entrance
    target: dict[str, Any]
    user_id: int
    expires_ns: int


class WorkspaceService:
    """Serves streams into jobs and visits of their pages."""

    def __init__(self, store: Store, allocations: Allocations, fleet: FleetService) -> None:
        self._store = store
        self._allocations = allocations
        self._fleet = fleet
        self._prepared: dict[str, _PreparedStream] = {}
        #: Of `_prepared`: streams are prepared in threads, at the same time, and opened on the loop.
        self._lock = threading.Lock()
        self.broker = StreamBroker()
        watch = allocations.idleness.watch
        self.kernels = KernelActivity(store, self.broker)
        watch.ask_kernels = self.kernels.find_last
        self.open_streams = OpenStreams(self.admit_visitor, watch.activity.note)
        store.notifier.add_listener(self.open_streams.note_change)
        # The host replaces both; without them a pool has no pages.
        self.visits = VisitBook(secrets.token_bytes(32), store.clock.now_ns)
        self.open_origin: Callable[[str], Awaitable[str]] = _refuse_pages

    def find_agent(self, node: str) -> str:
        """Return the agent of a node; any other name is that of an agent itself."""
        return self._fleet.find_agent(node)

    def find_entrance(self, named: str, principal: Principal) -> Entrance:
        """Find a running job that the caller may enter, by id, name or `last`. Blocks.

        To enter a job is to act as its user: colleagues and admins of the tenant may not.

        Raises:
            NotFound: the caller's scope has no such job.
            NoPermission: it is another user's.
            WrongState: it does not run.
        """
        job = self._allocations.jobs.get_job(named, principal)
        is_own = job.user == principal.user and job.tenant == principal.tenant
        if not is_own and not principal.has_permission(Permission.MANAGE_POOL):
            raise NoPermission(
                f"job {job.name} is {job.user}'s: to enter it is to act as {job.user}",
                hint=f"{job.user} and pool admins can",
            )
        if job.state != "running" or job.node is None:
            raise WrongState(f"job {job.name} is {job.state}", hint="gpupool ps")
        return Entrance(job.id, job.name, self._fleet.find_agent(job.node))

    def prepare_stream(self, named: str, body: StreamIn, principal: Principal) -> StreamOut:
        """Check a stream into a job, and give it an id that opens it once. Blocks.

        Raises:
            BadInput: the target is incomplete.
            TooManyRequests: the caller has too many that were not opened.
        """
        target = _make_target(body)
        entrance = self.find_entrance(named, principal)
        expires_ns = self._store.clock.now_ns() + PREPARED_NS
        stream = self._keep_prepared(
            _PreparedStream(entrance, target, principal.user_id, expires_ns), principal.user
        )
        # No caller knows the stream before its event is written.
        if body.kind in ("exec", "ssh"):
            self._record_entry(entrance, principal, body.kind)
        return StreamOut(stream=stream, job=entrance.job, expires_ns=expires_ns)

    def _keep_prepared(self, prepared: _PreparedStream, user: str) -> str:
        """Keep a stream until it is opened or expires; return its id. Raises TooManyRequests."""
        stream = secrets.token_hex(16)
        now_ns = prepared.expires_ns - PREPARED_NS
        with self._lock:
            for key, one in list(self._prepared.items()):
                if one.expires_ns <= now_ns:
                    del self._prepared[key]
            mine = sum(one.user_id == prepared.user_id for one in self._prepared.values())
            if mine < PREPARED_AT_MOST:
                self._prepared[stream] = prepared
                return stream
        raise TooManyRequests(
            f"{user} has {mine} streams that were asked for and not opened, the most",
            hint="open them, or ask again in 30 s",
            retry_after_seconds=30,
        )

    async def open_prepared(self, stream: str, principal: Principal) -> OpenStream:
        """Open a prepared stream of the caller, once. Raises NotFound, JobUnreachable."""
        with self._lock:
            prepared = self._prepared.get(stream)
            if (
                prepared is None
                or prepared.user_id != principal.user_id
                or prepared.expires_ns <= self._store.clock.now_ns()
            ):
                raise NotFound(
                    "no such stream: it was opened, or has expired", hint="ask for another one"
                )
            del self._prepared[stream]
        entrance = prepared.entrance
        opened = await self.broker.open_stream(entrance.agent, entrance.job, prepared.target)
        visitor = make_visitor(entrance, principal)
        self.open_streams.add(opened.end, visitor)
        return opened

    async def make_visit(self, named: str, body: VisitIn, principal: Principal) -> VisitOut:
        """Make a link to a page of a job, for one browser. Raises as `find_entrance` does."""
        entrance = await run_in_threadpool(self.find_entrance, named, principal)
        origin = await self.open_origin(entrance.job)
        await run_in_threadpool(self._record_entry, entrance, principal, f"pages of {body.service}")
        visitor = make_visitor(entrance, principal)
        link, expires_ns = self.visits.make_link(visitor)
        page = f"/jobs/{entrance.job}/{body.service}/{body.path.lstrip('/')}"
        # In the fragment of the page it would reach no server; in the query it reaches ours alone,
        # which answers with a redirection to the page without it.
        url = f"{origin}{page}{'&' if '?' in page else '?'}gpupool-visit={link}"
        return VisitOut(url=url, expires_ns=expires_ns)

    def _record_entry(self, entrance: Entrance, principal: Principal, how: str) -> None:
        """Write the event of an entrance, for the job's user and for auditors."""
        tenant = sa.select(jobs.c.tenant_id).where(jobs.c.public_id == entrance.job)
        with self._store.write() as write:
            tenant_id = write.connection.execute(tenant).scalar_one()
            data = {"by": principal.user, "how": how}
            write.event("job.entered", entrance.job, tenant_id=tenant_id, data=data)

    def admit_visitor(self, visitor: Visitor) -> Entrance:
        """Find the job of a visitor, whose rights are looked up now. Blocks.

        Raises:
            NotLoggedIn: the user is disabled, or the token or session that the user came with has
                ended.
            GpupoolError: as `find_entrance` does.
        """
        with self._store.read() as connection:
            row = connection.execute(
                select_users().where(users.c.id == visitor.user_id)
            ).one_or_none()
            is_known = (
                row is not None
                and row.disabled_ns is None
                and has_login(connection, visitor, self._store.clock.now_ns())
            )
        if row is None or not is_known:
            raise NotLoggedIn("your login has ended", hint="log in, and ask for a new link")
        principal = Principal(row.id, row.name, row.tenant_id, row.tenant, UserRole(row.role))
        return self.find_entrance(visitor.job, principal)


def make_visitor(entrance: Entrance, principal: Principal) -> Visitor:
    """Return the caller of a request as a visitor of a job.

    A session ends with the token of its login, which a one-time link has used up.
    """
    token = None if principal.session is not None else principal.token
    return Visitor(entrance.job, principal.user_id, token, principal.session)


def has_login(connection: sa.Connection, visitor: Visitor, now_ns: int) -> bool:
    """Return whether the token and the session of a visitor have not ended.

    A session that is not used for an hour ends for the console alone: a page of a job that is at
    work sends the console no requests.
    """
    if visitor.token is not None:
        query = sa.select(tokens).where(tokens.c.id == visitor.token)
        token = connection.execute(query).one_or_none()
        if token is None or not is_alive(token, now_ns):
            return False
    if visitor.session is None:
        return True
    live = sa.select(sessions.c.id).where(
        sessions.c.id == visitor.session,
        sessions.c.user_id == visitor.user_id,
        sessions.c.ended_ns.is_(None),
        sessions.c.expires_ns > now_ns,
    )
    return connection.execute(live).first() is not None


def _make_target(body: StreamIn) -> dict[str, Any]:
    """Return what an agent is asked for. Raises BadInput where something of it is missing."""
    needed = {"port": "port", "service": "service", "ssh": "public_key"}.get(body.kind)
    if needed is not None and getattr(body, needed) is None:
        raise BadInput(
            f"a stream of kind {body.kind} needs {needed}", hint="GET /openapi.json has the shapes"
        )
    return body.model_dump(exclude_none=True)


async def _refuse_pages(_job: str) -> str:
    raise ServiceUnavailable(
        "this server shows no pages of jobs", hint="gpupool port-forward reaches them"
    )
