"""Routes of mirrors, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.mirroring.service import MirrorService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.mirrors import MirrorIn, MirrorOut

router = Router(tags=["networks"])


def get_mirrors(request: Request) -> MirrorService:
    service: MirrorService = request.app.state.network_mirrors
    return service


Service = Annotated[MirrorService, Depends(get_mirrors)]


@router.get("/networks/{network}/mirrors")
def list_network_mirrors(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[MirrorOut]:
    """The mirrors of a network, with what the switch has copied."""
    return service.list_mirrors(caller, network, tenant)


@router.post("/networks/{network}/mirrors", status_code=201)
def create_network_mirror(
    network: str, body: MirrorIn, service: Service, caller: TenantManager, tenant: Tenant = None
) -> MirrorOut:
    """Copy the packets of a running job to another one of its network."""
    return service.create_mirror(caller, network, body, tenant)


@router.delete("/networks/{network}/mirrors/{mirror}", status_code=204)
def delete_network_mirror(
    network: str, mirror: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a mirror."""
    service.delete_mirror(caller, network, mirror, tenant)
    return Response(status_code=204)
