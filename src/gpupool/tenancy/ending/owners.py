"""The tenants and users that end in a transaction: rules and limits of theirs go with them.

A deleted tenant or user keeps its row for the books, and the next one of its name gets that row. So
what was set for the former one is deleted, and the books stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.user_names import find_ended_users

#: Events after which a name is no tenant's, or maybe that of another organization.
_ENDS: Final = frozenset({"tenant.deleted", "tenant.created"})


@dataclass(frozen=True)
class EndedOwners:
    """Row ids of what a transaction deletes or brings back."""

    tenants: Sequence[int]
    users: Sequence[int]

    def __bool__(self) -> bool:
        return bool(self.tenants or self.users)

    def select_revived(self) -> sa.Select[tuple[int]]:
        """Select the users that are brought back, each maybe another person."""
        return sa.select(users.c.id).where(users.c.id.in_(self.users), users.c.retired_ns.is_(None))

    def match(
        self, tenant: sa.ColumnElement[Any], user: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """Build the condition for rows of ended tenants and of ended users."""
        return sa.or_(tenant.in_(self.tenants), user.in_(self.users))


def find_ended_owners(write: WriteTransaction) -> EndedOwners:
    """Find the tenants and users that this transaction deletes or brings back."""
    return EndedOwners(find_ended_tenants(write), find_ended_users(write))


def find_ended_tenants(write: WriteTransaction) -> list[int]:
    """Find the tenants that this transaction deletes or brings back."""
    names = [event["subject"] for event in write.list_events() if event["kind"] in _ENDS]
    if not names:
        return []
    return list(write.execute(sa.select(tenants.c.id).where(tenants.c.name.in_(names))).scalars())
