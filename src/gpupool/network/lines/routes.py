"""Routes of dedicated lines, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.lines.service import LineService
from gpupool.network.routes import Reader, Tenant, TenantManager
from gpupool.wire.network.lines import LineIn, LineOut

router = Router(tags=["networks"])


def get_lines(request: Request) -> LineService:
    lines: LineService = request.app.state.network_lines
    return lines


Service = Annotated[LineService, Depends(get_lines)]


@router.get("/networks/{network}/lines")
def list_lines(
    network: str, service: Service, caller: Reader, tenant: Tenant = None
) -> list[LineOut]:
    """Dedicated lines of a network, by VLAN."""
    return service.list_lines(caller, network, tenant)


@router.get("/networks/{network}/lines/{line}")
def get_line(
    network: str, line: str, service: Service, caller: Reader, tenant: Tenant = None
) -> LineOut:
    """One dedicated line with what its peer announces."""
    return service.get_line(caller, network, line, tenant)


@router.post("/networks/{network}/lines", status_code=201)
def create_line(
    network: str, body: LineIn, service: Service, caller: TenantManager, tenant: Tenant = None
) -> LineOut:
    """Connect a network with the router of a company by a VLAN and a BGP session."""
    return service.create_line(caller, network, body, tenant)


@router.delete("/networks/{network}/lines/{line}", status_code=204)
def delete_line(
    network: str, line: str, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """Delete a dedicated line: its session and its routes end."""
    service.delete_line(caller, network, line, tenant)
    return Response(status_code=204)
