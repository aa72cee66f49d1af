"""The route of handovers, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from gpupool.allocations.routes.dependencies import Service, TenantManager
from gpupool.api.late_routes import Router
from gpupool.wire.leavers.handover import HandoverIn, HandoverOut

router = Router(tags=["tenancy"])


@router.post("/users/{user}/handover")
def hand_over(
    user: str, body: HandoverIn, allocations: Service, caller: TenantManager
) -> HandoverOut:
    """Hand the jobs, schedules and reservations of a user over to another user of its tenant.

    Processes go on as the Unix accounts that they have. What stays says why.
    """
    return allocations.handovers.hand_over(caller, user, body)
