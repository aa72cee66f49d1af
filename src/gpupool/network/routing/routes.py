"""Routes of route tables, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.network.routing.service import RouteService
from gpupool.wire.network.routes import RouteIn, RouteOut

router = Router(tags=["networks"])


def get_route_service(request: Request) -> RouteService:
    service: RouteService = request.app.state.network_routes
    return service


Service = Annotated[RouteService, Depends(get_route_service)]


@router.get("/networks/{network}/routes")
def list_network_routes(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[RouteOut]:
    """The effective route table of a network, by prefix."""
    return service.list_routes(caller, network, tenant)


@router.post("/networks/{network}/routes", status_code=201)
def create_network_route(
    network: str, body: RouteIn, service: Service, caller: TenantManager, tenant: Tenant = None
) -> RouteOut:
    """Lead packets for a prefix to a job of the network, or discard them."""
    return service.create_route(caller, network, body, tenant)


@router.delete("/networks/{network}/routes/{route}", status_code=204)
def delete_network_route(
    network: str, route: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a static route."""
    service.delete_route(caller, network, route, tenant)
    return Response(status_code=204)
