"""Routes of advice on shares, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from gpupool.allocations.rightsizing.service import RightsizingService
from gpupool.api.late_routes import Router
from gpupool.metering.routes import parse_instant_ns
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store
from gpupool.tenancy.access import require_caller
from gpupool.wire.rightsizing.advice import (
    AdviceOut,
    BacktestOut,
    LayoutAdviceOut,
    TenantAdviceOut,
)
from gpupool.wire.rightsizing.policies import (
    AdvicePolicyIn,
    AdvicePolicyOut,
    AdvicePolicyTrialOut,
)

router = Router(tags=["advice"])
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
TenantManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]
Since = Annotated[
    str, Query(max_length=64, description="30d (ago), 2026-11, 2026-11-20 or an ISO time")
]
Tenant = Annotated[str | None, Query(max_length=63, description="only this tenant's families")]


def get_rightsizing(request: Request) -> RightsizingService:
    rightsizing: RightsizingService = request.app.state.allocations.rightsizing
    return rightsizing


Service = Annotated[RightsizingService, Depends(get_rightsizing)]


@router.get("/advice")
def list_advice(
    request: Request,
    service: Service,
    caller: Reader,
    since: Since = "30d",
    family: Annotated[
        str | None,
        Query(max_length=320, description="TENANT/PROJECT/USER/PATTERN, or the pattern alone"),
    ] = None,
    job: Annotated[
        str | None, Query(max_length=80, description="only the family of this job")
    ] = None,
    tenant: Tenant = None,
) -> list[AdviceOut]:
    """What families of jobs should ask for by what their runs used, the greatest saving first."""
    since_ns = _parse_since(request, since)
    return service.list_advice(caller, since_ns, family=family, job=job, tenant=tenant)


@router.get("/advice/backtest")
def get_backtest(
    request: Request, service: Service, caller: Reader, since: Since = "30d", tenant: Tenant = None
) -> BacktestOut:
    """How often the advice would have starved a run, and what it would have saved."""
    return service.run_backtest(caller, _parse_since(request, since), tenant)


@router.get("/advice/tenants")
def list_tenant_advice(
    request: Request, service: Service, caller: Reader, since: Since = "30d"
) -> list[TenantAdviceOut]:
    """The advice for all families of each tenant together, the greatest saving first."""
    return service.list_tenants(caller, _parse_since(request, since))


@router.get("/advice/layouts")
def list_layout_advice(
    request: Request, service: Service, caller: Reader, since: Since = "30d", tenant: Tenant = None
) -> list[LayoutAdviceOut]:
    """How cards with MIG would be cut for what the families on them need."""
    return service.list_layouts(caller, _parse_since(request, since), tenant)


@router.get("/advice/policies")
def list_advice_policies(service: Service, caller: Reader) -> list[AdvicePolicyOut]:
    """Advice policies of the pool and of the caller's tenant, of all tenants for an admin."""
    return service.policies.list_all(caller)


@router.put("/advice/policies")
def put_advice_policy(
    body: AdvicePolicyIn, service: Service, caller: TenantManager
) -> AdvicePolicyOut:
    """Set an advice policy of the pool, a tenant, project or kind of family. Tenants may tighten."""
    return service.policies.put(caller, body)


@router.post("/advice/policies/trial")
def try_advice_policy(
    request: Request,
    body: AdvicePolicyIn,
    service: Service,
    caller: TenantManager,
    since: Since = "30d",
) -> AdvicePolicyTrialOut:
    """What an advice policy would have done with the measured jobs of a time. Changes nothing."""
    return service.policies.try_policy(caller, body, _parse_since(request, since))


@router.get("/advice/policies/{policy}")
def get_advice_policy(policy: str, service: Service, caller: Reader) -> AdvicePolicyOut:
    """One advice policy."""
    return service.policies.find(caller, policy)


@router.delete("/advice/policies/{policy}", status_code=204)
def delete_advice_policy(policy: str, service: Service, caller: TenantManager) -> Response:
    """Delete an advice policy: later jobs get what they ask for, changed ones keep what they have."""
    service.policies.delete(caller, policy)
    return Response(status_code=204)


def _parse_since(request: Request, since: str) -> int:
    store: Store = request.app.state.store
    return parse_instant_ns(since, store.clock.now_ns())
