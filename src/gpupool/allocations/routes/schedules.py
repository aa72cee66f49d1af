"""Routes of schedules, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from gpupool.allocations.routes.dependencies import Reader, Runner, Service
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.submission.validate import apply_job_limits, check_container
from gpupool.api.late_routes import Router
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.chains.schedules import (
    ScheduleChangeIn,
    ScheduleIn,
    ScheduleInstantsOut,
    ScheduleOut,
    ScheduleRunOut,
)
from gpupool.wire.common import Page
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn

router = Router(tags=["schedules"])


@router.get("/schedules")
def list_schedules(allocations: Service, caller: Reader) -> Page[ScheduleOut]:
    """The schedules of the caller's tenant, or of all tenants for an admin; by name."""
    return Page(items=allocations.schedules.list_schedules(caller))


@router.post("/schedules", status_code=201)
async def add_schedule(
    request: Request, body: ScheduleIn, allocations: Service, caller: Runner
) -> ScheduleOut:
    """Submit a job at each instant of a cron expression, as the caller. Refused where the pool would
    refuse the job."""

    def add() -> ScheduleOut:
        job, run_as = _limit_job(request, body.job, allocations, caller)
        return allocations.schedules.add(body.model_copy(update={"job": job}), caller, run_as)

    return await judge_with_cards(request, add)


@router.get("/schedule-instants")
def list_schedule_instants(
    allocations: Service,
    _caller: Reader,
    cron: Annotated[str, Query(max_length=100, description="five fields: 0 2 * * *")],
    time_zone: Annotated[str, Query(max_length=64)] = "UTC",
    count: Annotated[int, Query(ge=1, le=20)] = 5,
) -> ScheduleInstantsOut:
    """The next instants of a cron expression, before a schedule has it."""
    found = allocations.schedules.list_instants(cron, time_zone, count)
    return ScheduleInstantsOut(instants_ns=found)


@router.get("/schedules/{schedule}")
def get_schedule(
    schedule: str, allocations: Service, caller: Reader, response: Response
) -> ScheduleOut:
    """One schedule, by name or id. The `ETag` names what a change must have read."""
    return _tag(allocations.schedules.get_tagged(schedule, caller), response)


@router.put("/schedules/{schedule}")
async def change_schedule(
    schedule: str,
    request: Request,
    body: ScheduleChangeIn,
    allocations: Service,
    caller: Runner,
    response: Response,
    if_match: IfMatch = None,
) -> ScheduleOut:
    """Change its times, for its owner and tenant admins; or its job, for its owner. With `If-Match`,
    only if it is still the one that was read."""

    def change() -> tuple[ScheduleOut, int]:
        run_as = None
        changed = body
        if body.job is not None:
            job, run_as = _limit_job(request, body.job, allocations, caller)
            changed = body.model_copy(update={"job": job})
        tag = parse_generation(if_match)
        return allocations.schedules.change(schedule, changed, caller, run_as, tag)

    return _tag(await judge_with_cards(request, change), response)


@router.get("/schedules/{schedule}/runs")
def list_schedule_runs(
    schedule: str,
    allocations: Service,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Page[ScheduleRunOut]:
    """What became of the latest instants, the last one first."""
    return Page(items=allocations.schedules.list_runs(schedule, caller, limit))


@router.post("/schedules/{schedule}/pause")
def pause_schedule(schedule: str, allocations: Service, caller: Runner) -> ScheduleOut:
    """Let its instants pass: for its owner and tenant admins."""
    return allocations.schedules.pause(schedule, caller)


@router.post("/schedules/{schedule}/resume")
def resume_schedule(schedule: str, allocations: Service, caller: Runner) -> ScheduleOut:
    """Go on with the next instant: for its owner and tenant admins."""
    return allocations.schedules.resume(schedule, caller)


@router.post("/schedules/{schedule}/run")
def run_schedule(schedule: str, allocations: Service, caller: Runner) -> ScheduleRunOut:
    """Submit its job now, as its owner: for its owner and tenant admins."""
    return allocations.schedules.run_now(schedule, caller)


@router.delete("/schedules/{schedule}", status_code=204)
def remove_schedule(schedule: str, allocations: Service, caller: Runner) -> None:
    """Remove it and its history; its jobs go on. For its owner and tenant admins."""
    allocations.schedules.remove(schedule, caller)


def _limit_job(
    request: Request, job: JobIn, allocations: Service, caller: Runner
) -> tuple[JobIn, RunAs | None]:
    """Limit a job to what the pool and the caller's account allow; with the account."""
    peer = peer_of(request)
    run_as = allocations.tenancy.run_as(caller, peer)
    own = read_peer_limits(peer, run_as.uid if run_as else None)
    checked = check_container(job, allocations.container_policy)
    return apply_job_limits(checked, allocations.job_limits, own), run_as


def _tag(found: tuple[ScheduleOut, int], response: Response) -> ScheduleOut:
    response.headers["ETag"] = f'"{found[1]}"'
    return found[0]
