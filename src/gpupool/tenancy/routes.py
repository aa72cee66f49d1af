"""Routes of tenants, users, tokens and quotas, below /api/v1.

Thin: parse, ask the service, answer.
"""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Header, Query, Request, Response

from gpupool import __version__
from gpupool.api.late_routes import Router
from gpupool.base.errors import BadOption
from gpupool.model.tenant import Permission, Principal
from gpupool.store.tables import pool
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tenants import find_tenant, quota_out
from gpupool.wire.common import Page
from gpupool.wire.people import (
    CohortOut,
    ProjectIn,
    QuotaIn,
    QuotaOut,
    TenantIn,
    TenantOut,
    TokenIn,
    TokenOut,
    UserIn,
    UserOut,
    UserPatch,
    WhoamiOut,
)

router = Router(tags=["tenancy"])


def get_service(request: Request) -> TenancyService:
    tenancy: TenancyService = request.app.state.tenancy
    return tenancy


Service = Annotated[TenancyService, Depends(get_service)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
TenantManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_TENANT))]
PoolManager = Annotated[Principal, Depends(require_caller(Permission.MANAGE_POOL))]
After = Annotated[str | None, Query(max_length=200, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=1000)]
IfMatch = Annotated[
    str | None, Header(max_length=32, description="`ETag` of the quota that was read")
]


@router.get("/whoami")
def whoami(request: Request, tenancy: Service, caller: Reader) -> WhoamiOut:
    """The caller: its rights, its tenant, and what that tenant may hold."""
    with request.app.state.store.read() as connection:
        quota = quota_out(connection, find_tenant(connection, caller, caller.tenant))
        pool_id = connection.execute(sa.select(pool.c.pool_id)).scalar_one()
    return WhoamiOut(
        user=caller.user,
        tenant=caller.tenant,
        role=caller.role.value,
        permissions=sorted(caller.permissions),
        unix_user=caller.unix.name if caller.unix else None,
        local=caller.local,
        quota=quota,
        version=__version__,
        pool=pool_id,
    )


@router.get("/tenants")
def list_tenants(
    tenancy: Service, caller: Reader, after: After = None, limit: Limit = 100
) -> Page[TenantOut]:
    """Tenants by name: all of them for an admin, else the caller's own."""
    return tenancy.tenants.list(caller, after, limit)


@router.post("/tenants", status_code=201)
def create_tenant(tenancy: Service, caller: PoolManager, body: TenantIn) -> TenantOut:
    """Add a tenant, without limits unless a quota is given. A deleted one of that name comes
    back."""
    return tenancy.tenants.create(caller, body.name, body.quota)


@router.get("/tenants/{tenant}")
def get_tenant(tenancy: Service, caller: Reader, tenant: str) -> TenantOut:
    """One tenant, its quota, projects and number of users."""
    return tenancy.tenants.get(caller, tenant)


@router.delete("/tenants/{tenant}", status_code=204)
def delete_tenant(tenancy: Service, caller: PoolManager, tenant: str) -> None:
    """Take a tenant out of the pool; the books keep it. Refused while it has live jobs or users."""
    tenancy.tenants.delete(caller, tenant)


@router.get("/tenants/{tenant}/quota")
def get_quota(tenancy: Service, caller: Reader, tenant: str, response: Response) -> QuotaOut:
    """What a tenant may hold and holds now. The `ETag` names its generation."""
    quota, generation = tenancy.tenants.get_quota(caller, tenant)
    response.headers["ETag"] = f'"{generation}"'
    return quota


@router.put("/tenants/{tenant}/quota")
def put_quota(
    tenancy: Service,
    caller: PoolManager,
    tenant: str,
    body: QuotaIn,
    response: Response,
    if_match: IfMatch = None,
) -> QuotaOut:
    """Set a tenant's whole quota; with `If-Match`, only if it is still the one that was read."""
    quota, generation = tenancy.put_quota(caller, tenant, body, parse_generation(if_match))
    response.headers["ETag"] = f'"{generation}"'
    return quota


@router.get("/cohorts")
def list_cohorts(
    tenancy: Service, caller: PoolManager, after: After = None, limit: Limit = 100
) -> Page[CohortOut]:
    """Cohorts by name: the nodes of the quota tree above tenants."""
    return tenancy.cohorts.list(after, limit)


@router.get("/cohorts/{cohort}")
def get_cohort(tenancy: Service, caller: PoolManager, cohort: str, response: Response) -> CohortOut:
    """What those in a cohort may hold together. The `ETag` names its generation."""
    found, generation = tenancy.cohorts.get(cohort)
    response.headers["ETag"] = f'"{generation}"'
    return found


@router.put("/cohorts/{cohort}")
def put_cohort(
    tenancy: Service,
    caller: PoolManager,
    cohort: str,
    body: QuotaIn,
    response: Response,
    if_match: IfMatch = None,
) -> CohortOut:
    """Make a cohort or set its whole quota; with `If-Match`, only if it is still the one that was
    read."""
    found, generation = tenancy.cohorts.put(cohort, body, parse_generation(if_match))
    response.headers["ETag"] = f'"{generation}"'
    return found


@router.delete("/cohorts/{cohort}", status_code=204)
def delete_cohort(tenancy: Service, caller: PoolManager, cohort: str) -> None:
    """Take a cohort out. Refused while tenants or other cohorts are in it."""
    tenancy.cohorts.delete(cohort)


@router.post("/tenants/{tenant}/projects", status_code=201)
def create_project(
    tenancy: Service, caller: TenantManager, tenant: str, body: ProjectIn
) -> TenantOut:
    """Add a project to a tenant."""
    return tenancy.tenants.create_project(caller, tenant, body.name)


@router.get("/users")
def list_users(
    tenancy: Service, caller: Reader, after: After = None, limit: Limit = 100
) -> Page[UserOut]:
    """Users by name: all of them for an admin, else those of the caller's tenant."""
    return tenancy.users.list(caller, after, limit)


@router.post("/users", status_code=201)
def create_user(tenancy: Service, caller: TenantManager, body: UserIn) -> UserOut:
    """Add a user to the caller's tenant, or as an admin to any. Only admins bind Unix accounts."""
    return tenancy.users.create(caller, body)


@router.get("/users/{user}")
def get_user(tenancy: Service, caller: Reader, user: str) -> UserOut:
    """One user of the caller's scope."""
    return tenancy.users.get(caller, user)


@router.patch("/users/{user}")
def change_user(tenancy: Service, caller: TenantManager, user: str, body: UserPatch) -> UserOut:
    """Change what is given. `unix_user` and `run_as` given as null are unbound."""
    return tenancy.users.change(caller, user, body)


@router.delete("/users/{user}", status_code=204)
def delete_user(tenancy: Service, caller: TenantManager, user: str) -> None:
    """Take a user and its tokens out; the books keep its name.

    Refused while it has live jobs. A Unix account that calls again over the socket joins the
    default tenant anew: to keep it out, disable its user instead.
    """
    tenancy.delete_user(caller, user)


@router.get("/tokens")
def list_tokens(
    tenancy: Service,
    caller: Reader,
    after: After = None,
    limit: Limit = 100,
    user: Annotated[str | None, Query(max_length=63)] = None,
) -> Page[TokenOut]:
    """Tokens that are not revoked.

    For a user its own, for a tenant's admin those of its users, for an admin all.
    """
    return tenancy.tokens.list(caller, after, limit, user)


@router.post("/tokens", status_code=201)
def create_token(
    tenancy: Service,
    caller: Reader,
    body: TokenIn,
    once: Annotated[
        bool, Query(description="for one login, within 10 minutes unless `expires_seconds` says")
    ] = False,
) -> TokenOut:
    """Make a token for oneself, or as an admin for a user. It is shown in this answer and never
    again."""
    return tenancy.tokens.create(caller, body, once=once)


@router.delete("/tokens/{token}", status_code=204)
def revoke_token(tenancy: Service, caller: Reader, token: str) -> None:
    """End a token now."""
    tenancy.tokens.revoke(caller, token)


def parse_generation(etag: str | None) -> int | None:
    """Return the generation of an `If-Match` header; None: whatever it is. Raises BadOption."""
    if etag is None or etag.strip() == "*":
        return None
    # A weak or a quoted tag of another server is none of ours; 18 digits fit the column.
    digits = etag.strip().strip('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise BadOption(
            f"If-Match {etag[:32]!r} is no ETag of a quota", hint="send the ETag that GET answered"
        )
    return int(digits)
