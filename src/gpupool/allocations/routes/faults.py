"""Routes of incidents, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.allocations.faults.service import FaultService
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.faults.incidents import IncidentCloseIn, IncidentOut, IncidentRow

router = Router(tags=["faults"])
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
CardManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_CARDS))]


def get_faults(request: Request) -> FaultService:
    faults: FaultService = request.app.state.allocations.faults
    return faults


Service = Annotated[FaultService, Depends(get_faults)]


@router.get("/faults")
def list_faults(
    service: Service,
    caller: Reader,
    node: Annotated[str | None, Query(max_length=63, description="only of this node")] = None,
    every: Annotated[bool, Query(alias="all", description="closed ones too")] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[IncidentRow]:
    """Incidents of cards, the latest first. A tenant sees those that ended its jobs."""
    return service.list_incidents(caller, node=node, every=every, limit=limit)


@router.get("/faults/{incident}")
def get_fault(incident: str, service: Service, caller: Reader) -> IncidentOut:
    """One incident: its XIDs, the jobs that it hit, and what to do next."""
    return service.find(caller, incident)


@router.post("/faults/{incident}/accept")
def accept_fault(incident: str, service: Service, caller: CardManager) -> IncidentOut:
    """Take the proposed repair over. Refused while a card that it would touch is in use."""
    return service.accept(caller, incident)


@router.post("/faults/{incident}/close")
def close_fault(
    incident: str, body: IncidentCloseIn, service: Service, caller: CardManager
) -> IncidentOut:
    """Close an incident. Refused while a card of it is not healthy, unless the body says so."""
    return service.close(caller, incident, body)
