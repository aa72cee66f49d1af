"""Routes of budgets, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from gpupool.billing.budgets.service import BudgetService
from gpupool.billing.prices.routes import PoolManager, Reader
from gpupool.wire.billing.budgets import BudgetIn, BudgetOut

router = APIRouter(tags=["billing"])


def get_budgets(request: Request) -> BudgetService:
    budgets: BudgetService = request.app.state.billing.budgets
    return budgets


Service = Annotated[BudgetService, Depends(get_budgets)]


@router.get("/budgets")
def list_budgets(service: Service, caller: Reader) -> list[BudgetOut]:
    """Budgets of the caller's tenant, of all tenants for an admin, and where they stand."""
    return service.list_all(caller)


@router.put("/budgets")
def put_budget(body: BudgetIn, service: Service, caller: PoolManager) -> BudgetOut:
    """Set the budget of a tenant, a project or a user. The one that it has is replaced."""
    return service.put(caller, body)


@router.get("/budgets/{budget}")
def get_budget(budget: str, service: Service, caller: Reader) -> BudgetOut:
    """One budget, and where it stands."""
    return service.find(caller, budget)


@router.delete("/budgets/{budget}", status_code=204)
def delete_budget(budget: str, service: Service, caller: PoolManager) -> Response:
    """Delete a budget: it holds no job any more."""
    service.delete(caller, budget)
    return Response(status_code=204)
