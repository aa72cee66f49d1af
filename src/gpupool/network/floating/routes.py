"""Routes of floating IPs, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.floating.service import FloatingIpService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.floating_ips import FloatingIpIn, FloatingIpOut

router = Router(tags=["networks"])


def get_floating_ips(request: Request) -> FloatingIpService:
    floating: FloatingIpService = request.app.state.floating_ips
    return floating


Service = Annotated[FloatingIpService, Depends(get_floating_ips)]


@router.get("/networks/{network}/floating-ips")
def list_floating_ips(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[FloatingIpOut]:
    """Floating IPs of a network, by address."""
    return service.list_floating(caller, network, tenant)


@router.get("/networks/{network}/floating-ips/{floating_ip}")
def get_floating_ip(
    network: str, floating_ip: str, service: Service, caller: Reader, tenant: Tenant = None
) -> FloatingIpOut:
    """One floating IP, by id, address or target, with what a probe sees of it."""
    return service.get_floating(caller, network, floating_ip, tenant)


@router.post("/networks/{network}/floating-ips", status_code=201)
def create_floating_ip(
    network: str,
    body: FloatingIpIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> FloatingIpOut:
    """Give a job of a network with a gateway an address outside of the pool."""
    return service.create_floating(caller, network, body, tenant)


@router.delete("/networks/{network}/floating-ips/{floating_ip}", status_code=204)
def delete_floating_ip(
    network: str, floating_ip: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Release a floating IP, by id, address or target. Connections through it end."""
    service.delete_floating(caller, network, floating_ip, tenant)
    return Response(status_code=204)
