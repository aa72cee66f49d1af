"""Routes of the queue and of reservations, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.allocations.routes.dependencies import Limit, Reader, Service
from gpupool.allocations.routes.unknown_cards import judge_with_cards
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.common import Page
from gpupool.wire.reservations import ReservationIn, ReservationOut
from gpupool.wire.views.job_pages import QueuedOut

router = Router()
Manager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]


@router.get("/queue", tags=["jobs"])
def queue(allocations: Service, caller: Reader, limit: Limit = 100) -> Page[QueuedOut]:
    """What waits, in the order of its turn; of other tenants only how many jobs."""
    return Page(items=allocations.quotas.list_queue(caller, limit))


@router.get("/reservations", tags=["reservations"])
def list_reservations(
    allocations: Service,
    caller: Reader,
    everything: Annotated[bool, Query(alias="all", description="also those that are over")] = False,
) -> Page[ReservationOut]:
    """The reservations of the caller's tenant, or of all tenants for an admin; earliest first."""
    return Page(items=allocations.reservations.list_reservations(caller, everything=everything))


@router.post("/reservations", status_code=201, tags=["reservations"])
async def create_reservation(
    request: Request, body: ReservationIn, allocations: Service, caller: Manager
) -> ReservationOut:
    """Hold capacity for a tenant from a time on. Refused with the numbers where there is no room
    beside the others."""
    return await judge_with_cards(
        request, lambda: allocations.reservations.create_reservation(body, caller)
    )


@router.delete("/reservations/{name}", tags=["reservations"])
def delete_reservation(
    name: str,
    allocations: Service,
    caller: Manager,
    tenant: Annotated[
        str | None, Query(max_length=63, description="another tenant: admins only")
    ] = None,
) -> ReservationOut:
    """Give back what it holds; jobs that run in it go on."""
    return allocations.reservations.end_reservation(name, tenant, caller)
