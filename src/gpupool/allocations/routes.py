"""Routes of jobs, of a node's work, and of the event log, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.reading import Filter
from gpupool.allocations.service import Allocations, is_settled
from gpupool.base.errors import NotFound
from gpupool.model.job import ENDED, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import peer_of, require
from gpupool.wire.capacity import CapacityOut
from gpupool.wire.common import Event, Page
from gpupool.wire.fleet import ReportsIn, ReportsOut, WorkPage
from gpupool.wire.jobs import ExplainOut, JobIn, JobOut, LogOut, ResizedOut, ResizeIn, StopIn, SubmittedOut
from gpupool.wire.people import QuotaTreeOut

router = APIRouter(tags=["jobs"])
T = TypeVar("T")
MAX_WAIT = 60.0
HEARTBEAT_SECONDS = 15.0
EVENTS_AT_ONCE = 500


async def service(request: Request) -> Allocations:
    """Not plain, like every dependency of a hot route: a plain one is called in a thread of its own."""
    allocations: Allocations = request.app.state.allocations
    return allocations


@dataclass(frozen=True)
class Chunk:
    """A piece of a job's log."""

    data: bytes
    offset: int
    next_offset: int
    dropped_bytes: int


class Logs(Protocol):
    """Where jobs' output lies; the host gives one that reads the node's job directories."""

    def read(self, job: str, offset: int, limit: int) -> Chunk | None: ...

    async def changed(self, job: str, seconds: float) -> None: ...


Service = Annotated[Allocations, Depends(service)]
Reader = Annotated[Principal, Depends(require(Permission.READ))]
Runner = Annotated[Principal, Depends(require(Permission.RUN))]
Agent = Annotated[Principal, Depends(require(Permission.SERVE_NODE))]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT, description="answer at the latest after that many seconds")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[int, Query(ge=0, le=2**62)]


async def _until(
    request: Request, topic: tuple[str, str], seconds: float, read: Callable[[], T], done: Callable[[T], bool]
) -> T:
    """Read until it is done or the time is over; the caller's going away ends it as well."""
    deadline = time.monotonic() + seconds
    with request.app.state.store.hub.ticket(topic) as ticket:
        while True:
            found = await run_in_threadpool(read)
            left = deadline - time.monotonic()
            if done(found) or left <= 0 or not await ticket.wait(left):
                return found


@router.get("/capacity", tags=["fleet"])
def get_capacity(allocations: Service, _caller: Reader) -> CapacityOut:
    """What the pool could still give, and what of it is of no use to the claims that are expected."""
    return allocations.capacity()


@router.post("/jobs", status_code=201)
async def submit(
    request: Request,
    body: JobIn,
    allocations: Service,
    caller: Runner,
    wait_seconds: Wait = 0,
) -> SubmittedOut:
    """Submit a job, or an array of them. Refused at once when it can never be placed; otherwise it waits its turn."""

    def take_in() -> SubmittedOut:
        return allocations.submit(body, caller, allocations.tenancy.run_as(caller, peer_of(request)))

    submitted = await run_in_threadpool(take_in)
    job = submitted.first.id
    if wait_seconds and not is_settled(submitted.first):
        first = await _until(request, ("job", job), wait_seconds, lambda: allocations.job(job, caller), is_settled)
        submitted = submitted.model_copy(update={"first": first})
    return submitted


@router.get("/jobs")
def list_jobs(
    allocations: Service,
    caller: Reader,
    after: Annotated[str | None, Query(max_length=80, description="`next` of the page before")] = None,
    limit: Limit = 100,
    state: Annotated[list[JobState] | None, Query()] = None,
    name: Annotated[str | None, Query(max_length=80)] = None,
    tenant: Annotated[str | None, Query(max_length=63)] = None,
    user: Annotated[str | None, Query(max_length=63)] = None,
    live: bool = False,
    everything: Annotated[bool, Query(alias="all", description="also what ended more than an hour ago")] = False,
) -> Page[JobOut]:
    """Live jobs, newest first, then those that ended within the last hour."""
    wanted = Filter(frozenset(state or ()), name, tenant, user, everything, live)
    return allocations.list_jobs(caller, wanted, after, limit)


@router.get("/jobs/{job}")
async def get_job(
    request: Request,
    job: str,
    allocations: Service,
    caller: Reader,
    generation: Annotated[int, Query(ge=0, le=2**62, description="wait for a later one than this")] = 0,
    wait_seconds: Wait = 0,
    lease: Annotated[bool, Query(description="hold the lease of an attached job meanwhile")] = False,
) -> JobOut:
    """One job by id or name; `last` is the caller's newest."""
    found = await run_in_threadpool(allocations.job, job, caller)
    if not wait_seconds or found.generation > generation or found.state in ENDED:
        if lease and found.user == caller.user and found.state not in ENDED and found.attached:
            allocations.leases.renew(found.id)
        return found
    public_id = found.id

    def wait() -> Awaitable[JobOut]:
        return _until(
            request,
            ("job", public_id),
            wait_seconds,
            lambda: allocations.job(public_id, caller),
            lambda now: now.generation > generation or now.state in ENDED,
        )

    if lease and found.attached and found.user == caller.user:
        with allocations.leases.holding(public_id):
            return await while_connected(request, wait())
    return await wait()


async def while_connected(request: Request, waiting: Awaitable[T]) -> T:
    """The answer, unless the client goes away first: then its lease must begin to run at once."""
    answer = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise asyncio.CancelledError
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post("/jobs/{job}/stop")
def stop(job: str, body: StopIn, allocations: Service, caller: Runner) -> list[JobOut]:
    """Ask for the end of a job, or of all live jobs of an array. It ends with SIGTERM, after the grace with SIGKILL."""
    return allocations.stop(job, caller, body.grace_seconds)


@router.post("/jobs/{job}/resize")
async def resize(
    request: Request, job: str, body: ResizeIn, allocations: Service, caller: Runner, wait_seconds: Wait = 0
) -> ResizedOut:
    """Another share for a running job, on the cards it has: at once, or refused with the numbers.

    With `wait_seconds` it answers when the job's node has put the limits in force.
    """
    told = await run_in_threadpool(allocations.resize, job, body, caller)
    began = time.monotonic()
    if wait_seconds and not told.applied:
        topic, first = ("job", told.job.id), told
        told = await _until(request, topic, wait_seconds, lambda: allocations.resized(first), lambda now: now.applied)
    if told.applied:
        told = told.model_copy(update={"applied_milliseconds": round((time.monotonic() - began) * 1000, 1)})
    return told


@router.post("/jobs/{job}/saved")
def saved(job: str, allocations: Service, caller: Runner) -> JobOut:
    """The job's work is saved now: being preempted or moved would lose only what comes after."""
    return allocations.saved(job, caller)


@router.get("/quotas", tags=["tenancy"])
def quotas(allocations: Service, caller: Reader) -> QuotaTreeOut:
    """The quota tree: what every node may hold, holds, borrows and lends; one's own node for who is no admin."""
    return allocations.quotas(caller)


@router.get("/jobs/{job}/explain")
def explain(job: str, allocations: Service, caller: Reader) -> ExplainOut:
    """Why a job waits, in one sentence with numbers, and what would help; or why it runs where it runs."""
    return allocations.explain(job, caller)


@router.get("/jobs/{job}/logs")
async def logs(
    request: Request,
    job: str,
    allocations: Service,
    caller: Reader,
    offset: Annotated[int, Query(ge=-(2**62), le=2**62, description="negative: that many bytes from the end")] = 0,
    limit: Annotated[int, Query(ge=1, le=1 << 20)] = 1 << 16,
    wait_seconds: Wait = 0,
) -> LogOut:
    """A piece of a job's output, from a byte offset on."""
    source: Logs = request.app.state.logs
    deadline = time.monotonic() + wait_seconds
    while True:
        now = await run_in_threadpool(allocations.job, job, caller)
        chunk = await run_in_threadpool(source.read, now.id, offset, limit)
        ended = now.state in ENDED
        left = deadline - time.monotonic()
        if ended or left <= 0 or (chunk is not None and chunk.data):
            return _log_out(now, chunk, offset, limit)
        with request.app.state.store.hub.ticket(("job", now.id)) as ticket:
            if (await run_in_threadpool(allocations.job, now.id, caller)).generation == now.generation:
                await _first(source.changed(now.id, left), ticket.wait(left))


async def _first(*waits: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _log_out(job: JobOut, chunk: Chunk | None, offset: int, limit: int) -> LogOut:
    ended = job.state in ENDED
    if chunk is None:
        if job.attached and job.state != "pending":
            raise NotFound(
                f"job {job.name} has no log: its output went to its client's terminal",
                hint="gpupool submit  keeps a log",
            )
        return LogOut(data="", offset=max(0, offset), next_offset=max(0, offset), ended=ended)
    return LogOut(
        data=base64.b64encode(chunk.data).decode(),
        offset=chunk.offset,
        next_offset=chunk.next_offset,
        dropped_bytes=chunk.dropped_bytes,
        ended=ended and len(chunk.data) < limit,
    )


@router.get("/nodes/{node}/work", tags=["agents"])
async def work(
    request: Request, node: str, allocations: Service, caller: Agent, after: Cursor = 0, wait_seconds: Wait = 0
) -> WorkPage:
    """What an agent has to do since the cursor. With after=0 everything its nodes hold, at once."""

    if allocations.fleet.is_silent(node):  # then it is written that the node is back; else it is only remembered
        await run_in_threadpool(allocations.fleet.seen, node)
    else:
        allocations.fleet.seen(node)
    return await _until(
        request,
        ("node", allocations.fleet.agent_of(node)),
        wait_seconds if after else 0,
        lambda: allocations.work(node, after),
        lambda page: bool(page.work),
    )


@router.post("/nodes/{node}/reports", tags=["agents"])
def reports(node: str, body: ReportsIn, allocations: Service, caller: Agent) -> ReportsOut:
    """What became of a node's allocations, cards and jobs. Telling it twice changes nothing."""
    return allocations.reports(node, body)


@router.get("/events", tags=["events"])
def list_events(allocations: Service, caller: Reader, after: Cursor = 0, limit: Limit = 100) -> list[Event]:
    """A piece of the event log: the pool's own events and those of the caller's tenant."""
    return allocations.events(caller, after, limit)


@router.get("/watch", tags=["events"], response_class=StreamingResponse)
async def watch(request: Request, allocations: Service, caller: Reader, after: Cursor = 0) -> StreamingResponse:
    """Events as they come, one JSON object a line, a blank line every 15 s. Resume with the last `seq` as `after`."""
    return StreamingResponse(_lines(request, allocations, caller, after), media_type="application/x-ndjson")


async def _lines(request: Request, allocations: Allocations, caller: Principal, after: int) -> AsyncIterator[str]:
    with allocations.store.hub.ticket("events") as ticket:
        while not await request.is_disconnected():
            found = await run_in_threadpool(allocations.events, caller, after, EVENTS_AT_ONCE)
            for event in found:
                yield event.model_dump_json() + "\n"
                after = event.seq
            if len(found) < EVENTS_AT_ONCE and not await ticket.wait(HEARTBEAT_SECONDS):
                yield "\n"
