"""Routes of idle policies and idle jobs, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from gpupool.allocations.idleness.service import IdleService
from gpupool.api.late_routes import Router
from gpupool.metering.routes import parse_instant_ns
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.idleness.jobs import IdleJobOut, IdleKeepIn, IdleReportOut
from gpupool.wire.idleness.policies import IdlePolicyIn, IdlePolicyOut

router = Router(tags=["idle"])
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Runner = Annotated[Principal, Depends(require_caller(Permission.RUN))]
TenantManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]


def get_idleness(request: Request) -> IdleService:
    idleness: IdleService = request.app.state.allocations.idleness
    return idleness


Service = Annotated[IdleService, Depends(get_idleness)]


@router.get("/idle/jobs")
def list_idle_jobs(
    service: Service,
    caller: Reader,
    every: Annotated[
        bool, Query(alias="all", description="also jobs that are active or not known")
    ] = False,
    job: Annotated[
        str | None, Query(max_length=32, description="id: this job alone, or its gang")
    ] = None,
) -> list[IdleJobOut]:
    """Running jobs that do not use their cards: for how long, what comes next, what they cost."""
    return service.list_jobs(caller, idle_alone=not every, job=job)


@router.get("/idle/report")
def get_idle_report(
    request: Request,
    service: Service,
    caller: Reader,
    since: Annotated[
        str, Query(max_length=64, description="7d (ago), 2026-11, 2026-11-20 or an ISO time")
    ] = "7d",
    until: Annotated[str, Query(max_length=64, description="the same, or now")] = "now",
    tenant: Annotated[str | None, Query(max_length=63)] = None,
) -> IdleReportOut:
    """What idle policies gave back, and what dry runs would have, in GPU time and money."""
    store: Store = request.app.state.store
    now_ns = store.clock.now_ns()
    begin_ns = parse_instant_ns(since, now_ns)
    end_ns = min(now_ns, parse_instant_ns(until, now_ns))
    return service.report(caller, begin_ns, end_ns, tenant)


@router.get("/idle/policies")
def list_idle_policies(service: Service, caller: Reader) -> list[IdlePolicyOut]:
    """Idle policies of the pool and of the caller's tenant, of all tenants for an admin."""
    return service.policies.list_all(caller)


@router.put("/idle/policies")
def put_idle_policy(
    body: IdlePolicyIn,
    service: Service,
    caller: TenantManager,
    response: Response,
    if_match: IfMatch = None,
) -> IdlePolicyOut:
    """Set the idle policy of the pool, a tenant, a project or a kind of job. Tenants may tighten.

    With `If-Match`, only if it is still the one that was read; `"0"`: only if there is none.
    """
    return _tag(service.policies.put(caller, body, parse_generation(if_match)), response)


@router.get("/idle/policies/{policy}")
def get_idle_policy(
    policy: str, service: Service, caller: Reader, response: Response
) -> IdlePolicyOut:
    """One idle policy. The `ETag` names its generation."""
    return _tag(service.policies.find(caller, policy), response)


@router.delete("/idle/policies/{policy}", status_code=204)
def delete_idle_policy(policy: str, service: Service, caller: TenantManager) -> Response:
    """Delete an idle policy: jobs that only it was about get back what they gave."""
    service.policies.delete(caller, policy)
    return Response(status_code=204)


@router.get("/jobs/{job}/idle")
def get_job_idleness(job: str, service: Service, caller: Reader) -> IdleJobOut:
    """Whether a running job is idle, and what its idle policies do with it."""
    return service.describe_job(caller, job)


@router.post("/jobs/{job}/idle/keep")
def keep_idle_job(job: str, body: IdleKeepIn, service: Service, caller: Runner) -> IdleJobOut:
    """Leave an idle job alone for a while, so often a day as its policy allows."""
    return service.keep_job(caller, job, body.seconds)


def _tag(policy: IdlePolicyOut, response: Response) -> IdlePolicyOut:
    response.headers["ETag"] = f'"{policy.generation}"'
    return policy
