"""The holders of cards on a cluster in the terms of this pool.

Tenant is tenant, a namespace is a project, a service account a user. These users cannot log in:
their names hold a colon, which `user add` refuses, and they are disabled from the start.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import sqlalchemy as sa

from gpupool.base.errors import BadName
from gpupool.base.ids import check_name
from gpupool.model.tenant import UserRole
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.tenants import ensure_project, insert_tenant

#: Signs of a name; the columns have no more.
LONGEST = 63


class ClusterOwner(NamedTuple):
    """Keys of the rows."""

    tenant_id: int
    project_id: int
    user_id: int


def ensure_owner(
    write: WriteTransaction, tenant: str, namespace: str, account: str
) -> ClusterOwner:
    """Return the rows of this owner, made where there are none.

    A tenant that was deleted stays so, and is counted for.
    """
    tenant_id = _ensure_tenant(write, _make_usable(tenant))
    user_id = _ensure_user(
        write, shorten_name(f"{namespace}:{account}" if account else f"{namespace}:"), tenant_id
    )
    return ClusterOwner(
        tenant_id, ensure_project(write, tenant_id, _make_usable(namespace)), user_id
    )


def shorten_name(name: str) -> str:
    """Return the name; a long one is cut, with a mark of the whole that tells it from others.

    >>> shorten_name("a" * 70)[-12:]
    'aaa-6bd5e503'
    """
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}-{mark}"


def _make_usable(name: str) -> str:
    try:
        return check_name(name)
    except BadName:
        # A name that Kubernetes allows and the pool does not; the same one is always the same
        # tenant.
        return f"cluster-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _ensure_tenant(write: WriteTransaction, name: str) -> int:
    found = write.execute(
        sa.select(tenants.c.id).where(tenants.c.name == name)
    ).scalar_one_or_none()
    if found is not None:
        return int(found)
    tenant_id = insert_tenant(write, name)
    write.event("tenant.created", name, tenant_id=tenant_id)
    write.announce("quota")
    write.touch_ledger()
    return tenant_id


def _ensure_user(write: WriteTransaction, name: str, tenant_id: int) -> int:
    found = write.execute(sa.select(users.c.id).where(users.c.name == name)).scalar_one_or_none()
    if found is not None:
        return int(found)
    now = write.now_ns
    return write.insert(
        users,
        name=name,
        tenant_id=tenant_id,
        # Disabled from the start: the row is for the books, and no caller logs in as it.
        role=str(UserRole.VIEWER),
        created_ns=now,
        disabled_ns=now,
    )
