"""Routes of jobs, free capacity and quotas, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Annotated

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from gpupool.allocations.arrays.references import build_topic
from gpupool.allocations.routes.dependencies import (
    Limit,
    Reader,
    Runner,
    Service,
    Wait,
    read_until,
    wait_while_connected,
)
from gpupool.allocations.routes.submitting import submit_body
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.services.jobs import is_settled
from gpupool.allocations.services.suspensions import is_answered
from gpupool.allocations.submission.validate import apply_job_limits
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.allocations.views.job_search import DEFAULT_ORDER, JobSearch, check_order
from gpupool.api.late_routes import Router
from gpupool.model.job import ENDED, JobState
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.wire.capacity import CapacityOut
from gpupool.wire.jobs import (
    ArrayOut,
    ExplainOut,
    JobOut,
    PlannedOut,
    ResizedOut,
    ResizeIn,
    StopIn,
    SubmittedOut,
)
from gpupool.wire.people import QuotaTreeOut
from gpupool.wire.submissions import JobIn
from gpupool.wire.views.job_pages import JobPage, JobUseOut

router = Router(tags=["jobs"])


@router.get("/capacity", tags=["fleet"])
def get_capacity(allocations: Service, caller: Reader) -> CapacityOut:
    """What the pool could still give, and what of it is of no use to the claims that are
    expected."""
    return allocations.quotas.describe_capacity(caller)


@router.post("/jobs", status_code=201)
async def submit(
    request: Request,
    body: JobIn,
    allocations: Service,
    caller: Runner,
    wait_seconds: Wait = 0,
) -> SubmittedOut:
    """Submit a job, or an array of them. Refused at once when it can never be placed; otherwise it
    waits its turn."""
    submitted = await submit_body(request, body, allocations, caller)
    job = submitted.first.id
    if wait_seconds and not is_settled(submitted.first):
        first = await read_until(
            request,
            ("job", job),
            wait_seconds,
            lambda: allocations.jobs.get_job(job, caller),
            is_settled,
        )
        submitted = submitted.model_copy(update={"first": first})
    return submitted


@router.post("/jobs/plan")
async def plan(request: Request, body: JobIn, allocations: Service, caller: Runner) -> PlannedOut:
    """Check a submission as `POST /jobs` does, write nothing, and say which mechanism it would
    get."""

    def check() -> PlannedOut:
        peer = peer_of(request)
        run_as = allocations.tenancy.run_as(caller, peer)
        own = read_peer_limits(peer, run_as.uid if run_as else None)
        return allocations.jobs.plan_job(
            apply_job_limits(body, allocations.job_limits, own), caller, run_as
        )

    return await judge_with_cards(request, check)


@router.get("/jobs")
def list_jobs(
    allocations: Service,
    caller: Reader,
    after: Annotated[
        str | None, Query(max_length=200, description="`next` of the page before")
    ] = None,
    limit: Limit = 100,
    state: Annotated[list[JobState] | None, Query()] = None,
    name: Annotated[str | None, Query(max_length=80)] = None,
    tenant: Annotated[str | None, Query(max_length=63)] = None,
    project: Annotated[str | None, Query(max_length=63)] = None,
    user: Annotated[str | None, Query(max_length=63)] = None,
    q: Annotated[
        str | None,
        Query(max_length=80, description="part of a name, user or image; or how an id begins"),
    ] = None,
    sort: Annotated[
        str | None,
        Query(
            max_length=40,
            description="submitted, started, ended, name or gpu; with - the largest first. The list "
            "then has every job, the waiting rests of arrays first",
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(max_length=200, description="the same as `after`, of a list with an order"),
    ] = None,
    live: bool = False,
    everything: Annotated[
        bool, Query(alias="all", description="also what ended more than an hour ago")
    ] = False,
) -> JobPage:
    """Live jobs, newest first, then those that ended within the last hour.

    With `sort`, `q` or `cursor` it is a search: all jobs in the order asked for, `-submitted` if
    none is named. A page of it may be short before the last one: go on while `next` is not null.
    """
    text = (q or "").strip() or None
    wanted = JobFilter(frozenset(state or ()), name, tenant, user, everything, live, project, text)
    if text is None and sort is None and cursor is None:
        return allocations.jobs.list_jobs(caller, wanted, after, limit)
    search = JobSearch(wanted, check_order(sort or DEFAULT_ORDER))
    return allocations.jobs.search_jobs(caller, search, cursor or after, limit)


@router.get("/jobs/{job}")
async def get_job(
    request: Request,
    job: str,
    allocations: Service,
    caller: Reader,
    generation: Annotated[
        int, Query(ge=0, le=2**62, description="wait for a later one than this")
    ] = 0,
    wait_seconds: Wait = 0,
    lease: Annotated[
        bool, Query(description="hold the lease of an attached job meanwhile")
    ] = False,
) -> JobOut:
    """One job by id or name; `last` is the caller's newest."""
    found = await run_in_threadpool(allocations.jobs.get_job, job, caller)
    # Only the user's own client renews: a colleague who looks at the job must not keep it alive.
    if not wait_seconds or found.generation > generation or found.state in ENDED:
        if lease and found.user == caller.user and found.state not in ENDED and found.attached:
            allocations.leases.renew_lease(found.id)
        return found
    public_id = found.id

    def wait() -> Awaitable[JobOut]:
        return read_until(
            request,
            build_topic(public_id),
            wait_seconds,
            lambda: allocations.jobs.get_job(public_id, caller),
            lambda now: now.generation > generation or now.state in ENDED,
        )

    # While the request waits, the connection itself shows that the client lives.
    if lease and found.attached and found.user == caller.user:
        with allocations.leases.hold_lease(public_id):
            return await wait_while_connected(request, wait())
    return await wait()


@router.get("/arrays/{array}")
def get_array(array: str, allocations: Service, caller: Reader) -> ArrayOut:
    """One array by id or name: how many of its members are in which state. `last` is the caller's
    newest."""
    return allocations.jobs.get_array(array, caller)


@router.post("/jobs/{job}/stop")
def stop(job: str, body: StopIn, allocations: Service, caller: Runner) -> list[JobOut]:
    """Ask for the end of a job, or of all live jobs of an array. It ends with SIGTERM, after the
    grace with SIGKILL."""
    return allocations.jobs.stop_job(job, caller, body.grace_seconds)


@router.post("/jobs/{job}/resize")
async def resize(
    request: Request,
    job: str,
    body: ResizeIn,
    allocations: Service,
    caller: Runner,
    wait_seconds: Wait = 0,
) -> ResizedOut:
    """Another share for a running job, on the cards it has: at once, or refused with the numbers.

    With `wait_seconds` it answers when the job's node has put the limits in force.
    """
    written = await run_in_threadpool(allocations.resizes.resize_job, job, body, caller)
    began = time.monotonic()
    answer = written
    if wait_seconds and not written.applied:
        answer = await read_until(
            request,
            ("job", written.job.id),
            wait_seconds,
            lambda: allocations.resizes.read_resize_effect(written),
            lambda now: now.applied,
        )
    if answer.applied:
        # Counted from the commit, so it is the time that the node took.
        milliseconds = round((time.monotonic() - began) * 1000, 1)
        answer = answer.model_copy(update={"applied_milliseconds": milliseconds})
    return answer


@router.post("/jobs/{job}/suspend")
async def suspend(
    request: Request, job: str, allocations: Service, caller: Runner, wait_seconds: Wait = 0
) -> JobOut:
    """Move a running job's memory to the host, stop its processes, and give its cards to others.

    With `wait_seconds` it answers when the job's node has said what became of it: the
    suspension's state is `suspended`, or `failed` with the reason in its note.
    """
    asked = await run_in_threadpool(allocations.suspensions.suspend_job, job, caller)
    return await _await_move(request, asked, allocations, caller, wait_seconds)


@router.post("/jobs/{job}/resume")
async def resume(
    request: Request, job: str, allocations: Service, caller: Runner, wait_seconds: Wait = 0
) -> JobOut:
    """Bring a suspended job back to its cards: at once, or refused with the numbers.

    With `wait_seconds` it answers when the job's node has said what became of it: the
    suspension is null, or its state `suspended` with the reason in its note.
    """
    asked = await run_in_threadpool(allocations.suspensions.resume_job, job, caller)
    return await _await_move(request, asked, allocations, caller, wait_seconds)


async def _await_move(
    request: Request, asked: JobOut, allocations: Service, caller: Runner, wait_seconds: float
) -> JobOut:
    if not wait_seconds or is_answered(asked):
        return asked
    return await read_until(
        request,
        ("job", asked.id),
        wait_seconds,
        lambda: allocations.jobs.get_job(asked.id, caller),
        is_answered,
    )


# The id is the one of earlier versions: clients are generated from it.
@router.post("/jobs/{job}/saved", operation_id="saved_api_v1_jobs__job__saved_post")
def record_checkpoint(job: str, allocations: Service, caller: Runner) -> JobOut:
    """The job's work is saved now: being preempted or moved would lose only what comes after."""
    return allocations.jobs.record_checkpoint(job, caller)


@router.get("/quotas", tags=["tenancy"])
def quotas(allocations: Service, caller: Reader) -> QuotaTreeOut:
    """The quota tree: what every node may hold, holds, borrows and lends. Callers other than admins
    get the node of their tenant."""
    return allocations.quotas.describe_quotas(caller)


@router.get("/jobs/{job}/use")
def list_use(job: str, allocations: Service, caller: Reader) -> JobUseOut:
    """What a running job used of its share since it started, in at most 120 points."""
    return allocations.jobs.list_use(job, caller)


@router.get("/jobs/{job}/explain")
def explain(job: str, allocations: Service, caller: Reader) -> ExplainOut:
    """Why a job waits, in one sentence with numbers, and what would help; or why it runs where it
    runs."""
    return allocations.jobs.explain_job(job, caller)
