"""Find whose rows of the books a caller may read. Another tenant is as unknown as a missing one."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.errors import UnknownTenant
from gpupool.model.tenant import Principal, UserRole
from gpupool.tenancy.tables import tenants


def find_scope(
    connection: sa.Connection, principal: Principal, tenant: str | None
) -> tuple[int | None, int | None]:
    """Return (tenant whose rows are read, user whose name is shown); None means all.

    Another tenant is as unknown as a missing one, so that names of tenants do not leak.
    """
    if principal.sees_all:
        return (None if tenant is None else _find_tenant_id(connection, tenant)), None
    if tenant is not None and tenant != principal.tenant:
        raise _refuse_tenant(tenant)
    return principal.tenant_id, principal.user_id if principal.role is UserRole.USER else None


def _find_tenant_id(connection: sa.Connection, name: str) -> int:
    found = None
    if name.isprintable():
        found = connection.execute(
            sa.select(tenants.c.id).where(tenants.c.name == name)
        ).scalar_one_or_none()
    if found is None:
        raise _refuse_tenant(name)
    return int(found)


def _refuse_tenant(name: str) -> UnknownTenant:
    return UnknownTenant(
        f"no tenant is named {name[:80]!r}", hint="gpupool tenant list shows those you can see"
    )
