"""Reads rows of persons and groups, each only for the account that wrote it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.signon.scim.library import load_scim
from gpupool.signon.scim.tables import scim_groups, scim_members, scim_users

Row = Any
#: Ids in one `IN (...)`: SQLite takes 32,766 variables in a statement.
_IDS_AT_ONCE: Final = 5000


def find_user_row(connection: sa.Connection, account_id: int, public_id: str) -> Row:
    """Return a person's row. Raises the library's NotFoundException."""
    mine = sa.and_(scim_users.c.account_id == account_id, scim_users.c.public_id == public_id)
    row = connection.execute(sa.select(scim_users).where(mine)).one_or_none()
    if row is None:
        raise load_scim().NotFoundException(detail=f"no user {public_id[:40]!r}")
    return row


def find_group_row(connection: sa.Connection, account_id: int, public_id: str) -> Row:
    """Return a group's row. Raises the library's NotFoundException."""
    mine = sa.and_(scim_groups.c.account_id == account_id, scim_groups.c.public_id == public_id)
    row = connection.execute(sa.select(scim_groups).where(mine)).one_or_none()
    if row is None:
        raise load_scim().NotFoundException(detail=f"no group {public_id[:40]!r}")
    return row


def read_groups_of(connection: sa.Connection, user_ids: Sequence[int]) -> dict[int, list[Row]]:
    """Read the groups of persons, by the persons' row ids."""
    found: dict[int, list[Row]] = defaultdict(list)
    for first in range(0, len(user_ids), _IDS_AT_ONCE):
        some = user_ids[first : first + _IDS_AT_ONCE]
        query = (
            sa.select(scim_groups, scim_members.c.user_id.label("member_id"))
            .join(scim_members, scim_members.c.group_id == scim_groups.c.id)
            .where(scim_members.c.user_id.in_(some))
            .order_by(scim_groups.c.id)
        )
        for row in connection.execute(query):
            found[row.member_id].append(row)
    return found


def read_members_of(connection: sa.Connection, group_ids: Sequence[int]) -> dict[int, list[Row]]:
    """Read the members of groups, by the groups' row ids."""
    found: dict[int, list[Row]] = defaultdict(list)
    for first in range(0, len(group_ids), _IDS_AT_ONCE):
        some = group_ids[first : first + _IDS_AT_ONCE]
        query = (
            sa.select(
                scim_members.c.group_id,
                scim_users.c.id,
                scim_users.c.public_id,
                scim_users.c.user_name,
            )
            .join(scim_users, scim_users.c.id == scim_members.c.user_id)
            .where(scim_members.c.group_id.in_(some))
            .order_by(scim_users.c.id)
        )
        for row in connection.execute(query):
            found[row.group_id].append(row)
    return found


def read_user_ids(
    connection: sa.Connection, account_id: int, public_ids: Collection[str]
) -> set[int]:
    """Read the row ids of persons that a group names.

    Raises the library's InvalidValueException for one that the account did not write.
    """
    names = sorted(set(public_ids))
    found: dict[str, int] = {}
    for first in range(0, len(names), _IDS_AT_ONCE):
        query = sa.select(scim_users.c.public_id, scim_users.c.id).where(
            scim_users.c.account_id == account_id,
            scim_users.c.public_id.in_(names[first : first + _IDS_AT_ONCE]),
        )
        found |= {row.public_id: row.id for row in connection.execute(query)}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise load_scim().InvalidValueException(detail=f"no user {unknown[0][:40]!r}")
    return set(found.values())
