"""Routes of the audit log, below /api/v1. Nothing here changes it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.api.late_routes import Router
from gpupool.audit_log.service import AuditQuery, AuditService
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.audit.records import AuditHeadOut, AuditKind, AuditOrder, AuditRecordOut
from gpupool.wire.common import BIG, Page

router = Router(tags=["audit"])


def get_audit(request: Request) -> AuditService:
    audit: AuditService = request.app.state.audit
    return audit


Service = Annotated[AuditService, Depends(get_audit)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Instant = Annotated[int | None, Query(ge=0, le=BIG)]


@router.get("/audit", response_model_exclude_unset=True)
def list_records(
    service: Service,
    caller: Reader,
    since_ns: Instant = None,
    until_ns: Instant = None,
    user: Annotated[str | None, Query(max_length=63)] = None,
    action: Annotated[str | None, Query(max_length=200, description="part of it")] = None,
    subject: Annotated[
        str | None, Query(alias="object", max_length=128, description="an id or a name")
    ] = None,
    tenant: Annotated[str | None, Query(max_length=63)] = None,
    kind: AuditKind | None = None,
    order: AuditOrder = "newest",
    after: Annotated[str | None, Query(max_length=20, description="`next` of a page")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Page[AuditRecordOut]:
    """Records of what people did: all for admins and auditors, the tenant's for its admins."""
    query = AuditQuery(since_ns, until_ns, user, action, subject, tenant, kind)
    return service.list_records(caller, query, order, after, limit)


@router.get("/audit/head")
def get_head(service: Service, caller: Reader) -> AuditHeadOut:
    """The last record's number and hash, for admins and auditors."""
    return service.read_head(caller)
