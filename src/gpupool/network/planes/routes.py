"""Routes of planes, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request, Response

from gpupool.api.late_routes import Router
from gpupool.network.planes.evidence import PlaneEvidenceService
from gpupool.network.planes.service import PlaneService
from gpupool.network.routes import PoolManager, Reader, Tenant, TenantManager
from gpupool.wire.network.planes import (
    PlaneDemandIn,
    PlaneEvidenceOut,
    PlaneFile,
    PlaneInventory,
    PlaneInventoryOut,
    PlaneNodesIn,
    PlaneNodesOut,
    PlaneOut,
    PlaneReportIn,
)

router = Router(tags=["networks"])


def get_planes(request: Request) -> PlaneService:
    planes: PlaneService = request.app.state.planes
    return planes


def get_evidence(request: Request) -> PlaneEvidenceService:
    evidence: PlaneEvidenceService = request.app.state.plane_evidence
    return evidence


Service = Annotated[PlaneService, Depends(get_planes)]
Evidence = Annotated[PlaneEvidenceService, Depends(get_evidence)]
PlaneText = Annotated[
    str, Path(max_length=40, description="ethernet, roce, infiniband, storage or management")
]
Target = Annotated[str, Path(max_length=80, description="name of a compiled file, or NODE.pkeys")]


@router.get("/plane-inventory")
def get_plane_inventory(service: Service, _caller: PoolManager) -> PlaneInventoryOut:
    """Switches, node ports and storage targets, with what is wrong with nodes."""
    return service.get_inventory()


@router.put("/plane-inventory")
def put_plane_inventory(
    body: PlaneInventory, service: Service, _caller: PoolManager
) -> PlaneInventoryOut:
    """Replace the inventory of planes."""
    return service.put_inventory(body)


@router.get("/plane-files")
def list_plane_files(service: Evidence, _caller: PoolManager) -> list[PlaneFile]:
    """Compiled configuration of every target of the planes that tenants demand."""
    return service.list_files()


@router.get("/plane-evidence")
def list_plane_evidence(service: Evidence, _caller: PoolManager) -> list[PlaneEvidenceOut]:
    """The last report of each target."""
    return service.list_evidence()


@router.put("/plane-evidence/{target}")
def report_plane_evidence(
    target: Target, body: PlaneReportIn, service: Evidence, caller: PoolManager
) -> PlaneEvidenceOut:
    """Report what a target has: a compiled file by its hash, or what was read from it."""
    return service.report(caller, target, body)


@router.get("/planes")
def list_planes(service: Service, caller: Reader, tenant: Tenant = None) -> list[PlaneOut]:
    """Planes that tenants demand, with their state on each node."""
    return service.list_planes(caller, tenant)


@router.get("/planes/{plane}")
def get_plane(
    plane: PlaneText, service: Service, caller: Reader, tenant: Tenant = None
) -> PlaneOut:
    """One plane of a tenant with its state on each node."""
    return service.get_plane(caller, plane, tenant)


@router.put("/planes/{plane}")
def demand_plane(
    plane: PlaneText,
    service: Service,
    caller: TenantManager,
    body: PlaneDemandIn | None = None,
    tenant: Tenant = None,
) -> PlaneOut:
    """Demand a plane: the tenant gets nodes only where it is in force."""
    return service.demand_plane(caller, plane, body or PlaneDemandIn(), tenant)


@router.delete("/planes/{plane}", status_code=204)
def release_plane(
    plane: PlaneText, service: Service, caller: TenantManager, tenant: Tenant = None
) -> Response:
    """End a demand. With the last one of a plane of nodes the tenant's nodes go back."""
    service.release_plane(caller, plane, tenant)
    return Response(status_code=204)


@router.get("/plane-nodes")
def get_plane_nodes(service: Service, caller: Reader, tenant: Tenant = None) -> PlaneNodesOut:
    """Nodes that a tenant alone gets."""
    return service.get_nodes(caller, tenant)


@router.put("/plane-nodes")
def put_plane_nodes(
    body: PlaneNodesIn, service: Service, caller: PoolManager, tenant: Tenant = None
) -> PlaneNodesOut:
    """Give nodes to a tenant: these and no others."""
    return service.put_nodes(caller, body, tenant)
