"""Routes of seals, entries, statements and documents, below /api/v1. Thin."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response

from gpupool.api.late_routes import Router
from gpupool.billing.prices.routes import PoolManager, Reader
from gpupool.billing.service import Billing
from gpupool.wire.billing.statements import (
    AdjustmentIn,
    AdjustmentOut,
    SealIn,
    SealOut,
    StatementOut,
)

router = Router(tags=["billing"])


def get_billing(request: Request) -> Billing:
    billing: Billing = request.app.state.billing
    return billing


Service = Annotated[Billing, Depends(get_billing)]
Tenant = Annotated[
    str | None, Query(max_length=63, description="only this tenant's; an admin sees the pool")
]

_FILE = {"type": "string", "format": "binary"}


@router.get("/statements/{month}")
def get_statement(
    month: str, service: Service, caller: Reader, tenant: Tenant = None
) -> StatementOut:
    """What a tenant pays for a month, or how the whole pool's month closes."""
    return service.statements.make_statement(caller, month, tenant)


@router.get(
    "/documents/{month}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": _FILE}}}},
)
def get_document(
    month: str,
    service: Service,
    caller: Reader,
    form: Annotated[Literal["xlsx", "pdf", "focus"], Query(alias="format")],
    tenant: Tenant = None,
    language: Annotated[Literal["en", "zh"], Query()] = "en",
) -> Response:
    """The same as a file: a workbook, a PDF, or FOCUS 1.2 (CSV).

    A sealed month's file has the same bytes each time; `Repr-Digest` has their SHA-256.
    """
    made = service.statements.make_document(caller, month, tenant, form, language)
    disposition = f'attachment; filename="{made.name}"'
    return Response(
        made.content,
        media_type=made.media_type,
        headers={
            "Content-Disposition": disposition,
            "Repr-Digest": made.digest,
            "X-Content-Type-Options": "nosniff",
        },
    )


@router.get("/seals")
def list_seals(service: Service, _caller: PoolManager) -> list[SealOut]:
    """Sealed months, the oldest first, each compared with its rows."""
    return service.seals.list_all()


@router.post("/seals", status_code=201)
def create_seal(body: SealIn, service: Service, caller: PoolManager) -> SealOut:
    """Seal a month that is over. Its lines change never; entries correct it."""
    return service.seals.seal(caller, body.month)


@router.get("/adjustments")
def list_adjustments(service: Service, caller: Reader) -> list[AdjustmentOut]:
    """Entries of the caller's tenant, of all for an admin, the oldest first."""
    return service.seals.list_entries(caller)


@router.post("/adjustments", status_code=201)
def create_adjustment(body: AdjustmentIn, service: Service, caller: PoolManager) -> AdjustmentOut:
    """Add an entry to the month of today: a credit, a charge, or a sealed month's correction."""
    return service.seals.adjust(caller, body)
