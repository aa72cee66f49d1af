"""Routes of leaver policies and of leavers, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Response

from gpupool.allocations.handover.leaver_rows import list_leavers
from gpupool.allocations.routes.dependencies import Service
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import Page
from gpupool.wire.leavers.policies import LeaverPolicyIn, LeaverPolicyOut, LeaverRowOut

router = Router(tags=["sign-on"])
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]
Part = Annotated[str | None, Query(max_length=63)]


@router.get("/sso/leavers")
def list_pool_leavers(
    allocations: Service,
    _caller: PoolManager,
    everything: Annotated[bool, Query(alias="all", description="also those that are over")] = False,
) -> Page[LeaverRowOut]:
    """Users that a sync or SCIM disabled and whose jobs are not settled; the latest first."""
    return list_leavers(allocations.store, everything=everything)


@router.get("/sso/leaver-policies")
def list_leaver_policies(allocations: Service, _caller: PoolManager) -> list[LeaverPolicyOut]:
    """What becomes of the jobs of leavers, by tenant and provider. Without a policy they are kept."""
    return allocations.leaver_policies.list_policies()


@router.put("/sso/leaver-policies")
def put_leaver_policy(
    body: LeaverPolicyIn, allocations: Service, caller: PoolManager
) -> LeaverPolicyOut:
    """Set the policy of a tenant, of a provider, of both, or of the pool."""
    return allocations.leaver_policies.put_policy(caller, body)


@router.delete("/sso/leaver-policies", status_code=204)
def delete_leaver_policy(
    allocations: Service, caller: PoolManager, provider: Part = None, tenant: Part = None
) -> Response:
    """Delete a policy; leavers of before keep what it said."""
    allocations.leaver_policies.delete_policy(caller, provider, tenant)
    return Response(status_code=204)
