"""Routes of services, below /api/v1. Thin: parse, ask, answer. Requests to replicas go by `door`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.allocations.routes.dependencies import Reader, Runner
from gpupool.allocations.routes.dependencies import Service as AllocationService
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.allocations.submission.validate import apply_job_limits, check_container
from gpupool.api.late_routes import Router
from gpupool.serving.service import ServingService
from gpupool.tenancy.access import peer_of
from gpupool.tenancy.peer_limits import read_peer_limits
from gpupool.wire.common import Event, Page
from gpupool.wire.serving.services import ServiceAdd, ServiceChange, ServiceOut, ServicePlanOut

router = Router(tags=["services"])


def get_serving(request: Request) -> ServingService:
    found: ServingService = request.app.state.serving
    return found


Serving = Annotated[ServingService, Depends(get_serving)]


@router.get("/services")
def list_services(serving: Serving, caller: Reader) -> Page[ServiceOut]:
    """The services of the caller's tenant, or of all tenants for an admin; by name."""
    return Page(items=serving.list_services(caller))


@router.post("/services", status_code=201)
async def add_service(
    request: Request,
    body: ServiceAdd,
    serving: Serving,
    allocations: AllocationService,
    caller: Runner,
) -> ServiceOut:
    """Start replicas of a job behind one address, as the caller. Refused where the pool would refuse
    the job."""

    def add() -> ServiceOut:
        peer = peer_of(request)
        run_as = allocations.tenancy.run_as(caller, peer)
        own = read_peer_limits(peer, run_as.uid if run_as else None)
        made = serving.render(body, caller)
        if made.job is not None:
            job = check_container(made.job, allocations.container_policy)
            limited = apply_job_limits(job, allocations.job_limits, own)
            made = made.model_copy(update={"job": limited})
        return serving.add(made, caller, run_as)

    return await judge_with_cards(request, add)


@router.get("/services/{service}")
def get_service(service: str, serving: Serving, caller: Reader) -> ServiceOut:
    """One service with its replicas, by name or id."""
    return serving.get(service, caller)


@router.get("/services/{service}/events")
def list_service_events(
    service: str,
    serving: Serving,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[Event]:
    """The latest events of a service since it was created, the newest first."""
    return Page(items=serving.list_events(service, caller, limit))


@router.post("/services/{service}/plan")
def plan_service_change(
    service: str, body: ServiceChange, serving: Serving, caller: Runner
) -> ServicePlanOut:
    """What a change would do to the replicas; changes nothing. For its owner and tenant admins."""
    return serving.plan(service, body, caller)


@router.patch("/services/{service}")
def change_service(
    service: str, body: ServiceChange, serving: Serving, caller: Runner
) -> ServiceOut:
    """Change bounds, checks and times: for its owner and tenant admins. What is left out stays."""
    return serving.change(service, body, caller)


@router.delete("/services/{service}", status_code=202)
def remove_service(service: str, serving: Serving, caller: Runner) -> ServiceOut:
    """End its replicas, each once it has no requests, and the service with the last one. For its
    owner and tenant admins."""
    return serving.remove(service, caller)
