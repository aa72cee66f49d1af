"""Routes of leaver policies and of leavers, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from gpupool.allocations.handover.leaver_rows import list_leavers
from gpupool.allocations.routes.dependencies import Service, TenantManager
from gpupool.api.late_routes import Router
from gpupool.wire.common import Page
from gpupool.wire.leavers.policies import LeaverPolicyIn, LeaverPolicyOut, LeaverRowOut

router = Router(tags=["sign-on"])
Part = Annotated[str | None, Query(max_length=63)]


@router.get("/sso/leavers")
def list_pool_leavers(
    allocations: Service,
    caller: TenantManager,
    everything: Annotated[bool, Query(alias="all", description="also those that are over")] = False,
) -> Page[LeaverRowOut]:
    """Users that a sync, SCIM or a login disabled and whose jobs are not settled; the latest first."""
    return list_leavers(allocations.store, caller, everything=everything)


@router.get("/sso/leaver-policies")
def list_leaver_policies(allocations: Service, caller: TenantManager) -> list[LeaverPolicyOut]:
    """What becomes of the jobs of leavers, by tenant and provider. Without a policy they are kept."""
    return allocations.leaver_policies.list_policies(caller)


@router.put("/sso/leaver-policies")
def put_leaver_policy(
    body: LeaverPolicyIn, allocations: Service, caller: TenantManager
) -> LeaverPolicyOut:
    """Set the policy of a tenant, of a provider, of both, or of the pool.

    An admin of a tenant sets that of its tenant.
    """
    return allocations.leaver_policies.put_policy(caller, body)


@router.delete("/sso/leaver-policies", status_code=204)
def delete_leaver_policy(
    allocations: Service, caller: TenantManager, provider: Part = None, tenant: Part = None
) -> Response:
    """Delete a policy; leavers of before keep what it said."""
    allocations.leaver_policies.delete_policy(caller, provider, tenant)
    return Response(status_code=204)
