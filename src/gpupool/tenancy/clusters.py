"""The holders of cards on a cluster in the terms of this pool: tenant, namespace as project, service account as user.

These users cannot log in: their names hold a colon, which `user add` refuses, and they are disabled from the start.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import sqlalchemy as sa

from gpupool.base.errors import BadName
from gpupool.base.ids import check_name
from gpupool.model.tenant import Role
from gpupool.store.database import Write
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import ensure_project, insert_tenant

LONGEST = 63


class Owner(NamedTuple):
    """Keys of the rows."""

    tenant_id: int
    project_id: int
    user_id: int


def owner_of(write: Write, tenant: str, namespace: str, account: str) -> Owner:
    """The rows of this owner, made where there are none. A tenant that was deleted stays so, and is counted for."""
    tenant_id = _tenant(write, _usable(tenant))
    user_id = _user(write, shortened(f"{namespace}:{account}" if account else f"{namespace}:"), tenant_id)
    return Owner(tenant_id, ensure_project(write, tenant_id, _usable(namespace)), user_id)


def shortened(name: str) -> str:
    """The name, or its beginning with what tells it from others where it is too long.

    >>> shortened("a" * 70)[-12:]
    'aaa-3a9d30bd'
    """
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}-{mark}"


def _usable(name: str) -> str:
    try:
        return check_name(name)
    except BadName:
        return f"cluster-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _tenant(write: Write, name: str) -> int:
    found = write.execute(sa.select(tenants.c.id).where(tenants.c.name == name)).scalar_one_or_none()
    if found is not None:
        return int(found)
    tenant_id = insert_tenant(write, name)
    write.event("tenant.created", name, tenant_id=tenant_id)
    write.announce("quota")
    write.touch_ledger()
    return tenant_id


def _user(write: Write, name: str, tenant_id: int) -> int:
    found = write.execute(sa.select(users.c.id).where(users.c.name == name)).scalar_one_or_none()
    if found is not None:
        return int(found)
    now = write.now_ns
    return write.insert(users, name=name, tenant_id=tenant_id, role=str(Role.VIEWER), created_ns=now, disabled_ns=now)
