"""Routes of port forwards, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.forwarding.service import PortForwardService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.port_forwards import PortForwardIn, PortForwardOut

router = Router(tags=["networks"])


def get_forwards(request: Request) -> PortForwardService:
    forwards: PortForwardService = request.app.state.port_forwards
    return forwards


Service = Annotated[PortForwardService, Depends(get_forwards)]


@router.get("/networks/{network}/port-forwards")
def list_port_forwards(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[PortForwardOut]:
    """Port forwards of a network, by port."""
    return service.list_forwards(caller, network, tenant)


@router.post("/networks/{network}/port-forwards", status_code=201)
def create_port_forward(
    network: str,
    body: PortForwardIn,
    service: Service,
    caller: TenantManager,
    tenant: Tenant = None,
) -> PortForwardOut:
    """Let a port of the pool's machine lead to jobs of a network with a gateway."""
    return service.create_forward(caller, network, body, tenant)


@router.delete("/networks/{network}/port-forwards/{forward}", status_code=204)
def delete_port_forward(
    network: str, forward: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a port forward. Connections through it end."""
    service.delete_forward(caller, network, forward, tenant)
    return Response(status_code=204)
