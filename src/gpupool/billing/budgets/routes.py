"""Routes of budgets, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.billing.budgets.service import BudgetService
from gpupool.billing.prices.routes import PoolManager, Reader
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.billing.budgets import BudgetIn, BudgetOut

router = Router(tags=["billing"])


def get_budgets(request: Request) -> BudgetService:
    budgets: BudgetService = request.app.state.billing.budgets
    return budgets


Service = Annotated[BudgetService, Depends(get_budgets)]


@router.get("/budgets")
def list_budgets(service: Service, caller: Reader) -> list[BudgetOut]:
    """Budgets of the caller's tenant, of all tenants for an admin, and where they stand."""
    return service.list_all(caller)


@router.put("/budgets")
def put_budget(
    body: BudgetIn,
    service: Service,
    caller: PoolManager,
    response: Response,
    if_match: IfMatch = None,
) -> BudgetOut:
    """Set the budget of a tenant, a project or a user. The one that it has is replaced.

    With `If-Match`, only if it is still the one that was read; `"0"`: only if there is none.
    """
    return _tag(service.put(caller, body, parse_generation(if_match)), response)


@router.get("/budgets/{budget}")
def get_budget(budget: str, service: Service, caller: Reader, response: Response) -> BudgetOut:
    """One budget, and where it stands. The `ETag` names its generation."""
    return _tag(service.find(caller, budget), response)


@router.delete("/budgets/{budget}", status_code=204)
def delete_budget(budget: str, service: Service, caller: PoolManager) -> Response:
    """Delete a budget: it holds no job any more."""
    service.delete(caller, budget)
    return Response(status_code=204)


def _tag(budget: BudgetOut, response: Response) -> BudgetOut:
    response.headers["ETag"] = f'"{budget.generation}"'
    return budget
