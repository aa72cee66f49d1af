"""Routes of price lists, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from gpupool.api.late_routes import Router
from gpupool.billing.prices.service import PriceListService
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.routes import IfMatch, parse_generation
from gpupool.wire.billing.prices import PriceListIn, PriceListOut

router = Router(tags=["billing"])


def get_prices(request: Request) -> PriceListService:
    prices: PriceListService = request.app.state.billing.prices
    return prices


Service = Annotated[PriceListService, Depends(get_prices)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]


@router.get("/prices")
def list_prices(service: Service, _caller: Reader) -> list[PriceListOut]:
    """The price lists, the earliest first. Each holds until the next begins."""
    return service.list_all()


@router.get("/prices/{price_list}")
def get_price_list(
    price_list: str, service: Service, _caller: Reader, response: Response
) -> PriceListOut:
    """One price list. The `ETag` names its generation."""
    return _tag(service.find(price_list), response)


@router.put("/prices/{price_list}")
def put_price_list(
    price_list: str,
    body: PriceListIn,
    service: Service,
    _caller: PoolManager,
    response: Response,
    if_match: IfMatch = None,
) -> PriceListOut:
    """Make a price list or replace it. Refused where a sealed month would change.

    With `If-Match`, only if it is still the one that was read; `"0"`: only if there is none.
    """
    return _tag(service.put(price_list, body, parse_generation(if_match)), response)


@router.delete("/prices/{price_list}", status_code=204)
def delete_price_list(price_list: str, service: Service, _caller: PoolManager) -> Response:
    """Delete a price list: the one before holds in its place."""
    service.delete(price_list)
    return Response(status_code=204)


def _tag(found: PriceListOut, response: Response) -> PriceListOut:
    response.headers["ETag"] = f'"{found.generation}"'
    return found
