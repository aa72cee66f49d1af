"""Routes of bandwidth limits, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.limiting.model import LimitSubject
from gpupool.network.limiting.service import BandwidthLimitService
from gpupool.network.routes import PoolManager, Reader, Tenant, TenantManager
from gpupool.wire.network.promises import BandwidthIn, BandwidthLimitIn, BandwidthLimitsOut

router = Router(tags=["networks"])


def get_limits(request: Request) -> BandwidthLimitService:
    limits: BandwidthLimitService = request.app.state.bandwidth_limits
    return limits


Service = Annotated[BandwidthLimitService, Depends(get_limits)]


@router.get("/networks/{network}/limits")
def list_bandwidth_limits(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> BandwidthLimitsOut:
    """Bandwidth limits of a network, and how each port and the gateway stand."""
    return service.list_limits(caller, network, tenant)


@router.put("/networks/{network}/limits")
def set_bandwidth_limit(
    network: str,
    body: BandwidthLimitIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> BandwidthLimitsOut:
    """Set a bandwidth limit of a network. The same subject again replaces it."""
    return service.set_limit(caller, network, body, tenant)


@router.delete("/networks/{network}/limits/{limit}", status_code=204)
def delete_bandwidth_limit(
    network: str, limit: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a bandwidth limit of a network."""
    service.delete_limit(caller, network, limit, tenant)
    return Response(status_code=204)


@router.get("/tenants/{tenant}/bandwidth-cap")
def get_bandwidth_cap(
    tenant: str, service: Service, caller: Reader, subject: LimitSubject = "port"
) -> BandwidthIn:
    """What each port, or each gateway, of a tenant may have at most."""
    return service.get_cap(caller, tenant, subject)


@router.put("/tenants/{tenant}/bandwidth-cap")
def set_bandwidth_cap(
    tenant: str,
    body: BandwidthIn,
    service: Service,
    caller: PoolManager,
    subject: LimitSubject = "port",
) -> BandwidthIn:
    """Set what each port, or each gateway, of a tenant may have at most."""
    return service.set_cap(caller, tenant, subject, body)
