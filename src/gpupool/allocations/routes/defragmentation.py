"""Routes of defragmentation and rebalancing, below /api/v1. Thin: parse, ask, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from gpupool.allocations.routes.dependencies import Service
from gpupool.api.late_routes import Router
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.defrag import DefragIn, DefragOut, MovesIn, MovesOut, RebalanceIn, RebalanceOut

router = Router(tags=["fleet"])
Admin = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]


@router.post("/defrag/plan")
def plan_defrag(body: DefragIn, allocations: Service, _caller: Admin) -> DefragOut:
    """What to move so that whole cards of one node come free together, and what that costs. Moves
    nothing."""
    return allocations.migrations.plan_defrag(body)


@router.post("/rebalance/plan")
def plan_rebalance(body: RebalanceIn, allocations: Service, _caller: Admin) -> RebalanceOut:
    """Which shares to move so that the cards they are on are loaded more alike, and what that
    costs. Moves nothing."""
    return allocations.migrations.plan_rebalance(body)


@router.post("/defrag/moves", status_code=202)
def make_moves(body: MovesIn, allocations: Service, _caller: Admin) -> MovesOut:
    """Keep new seats for these jobs and tell them to leave; all or none."""
    return allocations.migrations.apply_moves(body)
