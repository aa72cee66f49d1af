"""Routes of schedules, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request

from gpupool.allocations.routes.dependencies import Reader, Runner, Service
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.submission.validate import apply_job_limits, check_container
from gpupool.api.late_routes import Router
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.wire.chains.schedules import ScheduleIn, ScheduleOut, ScheduleRunOut
from gpupool.wire.common import Page

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
        peer = peer_of(request)
        run_as = allocations.tenancy.run_as(caller, peer)
        own = read_peer_limits(peer, run_as.uid if run_as else None)
        job = check_container(body.job, allocations.container_policy)
        limited = apply_job_limits(job, allocations.job_limits, own)
        return allocations.schedules.add(body.model_copy(update={"job": limited}), caller, run_as)

    return await judge_with_cards(request, add)


@router.get("/schedules/{schedule}")
def get_schedule(schedule: str, allocations: Service, caller: Reader) -> ScheduleOut:
    """One schedule, by name or id."""
    return allocations.schedules.get(schedule, caller)


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
