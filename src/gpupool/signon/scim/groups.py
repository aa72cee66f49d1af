"""The endpoint /Groups: groups whose names the rules of sign-on know. Thread-safe."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.signon.scim.library import build_policy, load_scim
from gpupool.signon.scim.listing import build_page, find_lookup, parse_query
from gpupool.signon.scim.resources import build_group, list_member_ids, read_group_columns
from gpupool.signon.scim.rows import find_group_row, read_members_of, read_user_ids
from gpupool.signon.scim.tables import scim_groups, scim_members, scim_users
from gpupool.signon.scim.users import ScimUsers
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction

Row = Any
_COLUMNS: Final = {
    "displayname": scim_groups.c.display_name,
    "externalid": scim_groups.c.external_id,
    "id": scim_groups.c.public_id,
}


class ScimGroups:
    """Groups of one account at a time.

    Members are marked in the transaction of the change, and get their rights in transactions of a
    bounded size; a crash in between is made up for by the account's next request.
    """

    def __init__(self, store: Store, persons: ScimUsers) -> None:
        self._store = store
        self._persons = persons

    def list_groups(self, caller: Principal, parameters: Mapping[str, str], base: str) -> Any:
        """List the groups that a filter finds, a page at a time."""
        request = parse_query(load_scim().Group, parameters)
        lookup = find_lookup(request, _COLUMNS)
        query = sa.select(scim_groups).where(scim_groups.c.account_id == caller.user_id)
        if lookup is not None:
            query = query.where(lookup)
        with self._store.read() as connection:
            rows = connection.execute(query.order_by(scim_groups.c.id)).all()

            def build(some: Sequence[Row]) -> list[Any]:
                members = read_members_of(connection, [row.id for row in some])
                return [build_group(row, members.get(row.id, ()), base) for row in some]

            return build_page(request, rows, build, matched=lookup is not None), request

    def get_group(self, caller: Principal, group: str, base: str) -> Any:
        """Return a group with its members."""
        with self._store.read() as connection:
            return _build(connection, find_group_row(connection, caller.user_id, group), base)

    def create_group(self, caller: Principal, body: Any, base: str) -> Any:
        """Add a group."""
        scim = load_scim()
        given = scim.Group.model_validate(
            body, scim_ctx=scim.Context.RESOURCE_CREATION_REQUEST, scim_policy=build_policy()
        )
        columns = read_group_columns(given)
        with idempotency.defer_key(), self._store.write() as write:
            key = write.insert(
                scim_groups,
                public_id=new_id("q"),
                account_id=caller.user_id,
                created_ns=write.now_ns,
                changed_ns=write.now_ns,
                **columns,
            )
            built = self._finish(write, caller, key, list_member_ids(given), base)
        self._persons.settle_due(caller)
        return built

    def replace_group(self, caller: Principal, group: str, body: Any, base: str) -> Any:
        """Write a group anew, with its members."""
        scim = load_scim()
        given = scim.Group.model_validate(
            body, scim_ctx=scim.Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=build_policy()
        )
        with idempotency.defer_key(), self._store.write() as write:
            row = find_group_row(write.connection, caller.user_id, group)
            built = self._write(write, caller, row, given, base)
        self._persons.settle_due(caller)
        return built

    def patch_group(self, caller: Principal, group: str, body: Any, base: str) -> Any:
        """Apply operations to a group, all or none."""
        scim = load_scim()
        operations = scim.PatchOp.__class_getitem__(scim.Group).model_validate(
            body, scim_ctx=scim.Context.RESOURCE_PATCH_REQUEST, scim_policy=build_policy()
        )
        with idempotency.defer_key(), self._store.write() as write:
            row = find_group_row(write.connection, caller.user_id, group)
            patched = _build(write.connection, row, base)
            operations.patch(patched, scim_policy=build_policy())
            built = self._write(write, caller, row, patched, base)
        self._persons.settle_due(caller)
        return built

    def delete_group(self, caller: Principal, group: str) -> None:
        """Delete a group; its members lose the rights that it gave."""
        with idempotency.defer_key(), self._store.write() as write:
            row = find_group_row(write.connection, caller.user_id, group)
            _set_members(write, row.id, set())
            write.execute(scim_groups.delete().where(scim_groups.c.id == row.id))
            write.event("scim.group-deleted", row.display_name, tenant_id=caller.tenant_id)
        self._persons.settle_due(caller)

    def _write(
        self, write: WriteTransaction, caller: Principal, row: Row, group: Any, base: str
    ) -> Any:
        columns = read_group_columns(group)
        mine = scim_groups.c.id == row.id
        write.execute(scim_groups.update().where(mine).values(**columns, changed_ns=write.now_ns))
        if columns["display_name"] != row.display_name:
            # Another name is another group to the rules.
            _mark_due(write, _read_member_ids(write.connection, row.id))
        return self._finish(write, caller, row.id, list_member_ids(group), base)

    def _finish(
        self,
        write: WriteTransaction,
        caller: Principal,
        key: int,
        member_ids: Sequence[str],
        base: str,
    ) -> Any:
        members = read_user_ids(write.connection, caller.user_id, member_ids)
        _set_members(write, key, members)
        row = write.execute(sa.select(scim_groups).where(scim_groups.c.id == key)).one()
        data = {"members": len(members), "account": caller.user}
        write.event("scim.group-changed", row.display_name, tenant_id=caller.tenant_id, data=data)
        return _build(write.connection, row, base)


def _build(connection: sa.Connection, row: Row, base: str) -> Any:
    return build_group(row, read_members_of(connection, [row.id]).get(row.id, ()), base)


def _read_member_ids(connection: sa.Connection, key: int) -> set[int]:
    query = sa.select(scim_members.c.user_id).where(scim_members.c.group_id == key)
    return set(connection.execute(query).scalars())


def _set_members(write: WriteTransaction, key: int, members: set[int]) -> None:
    """Make these persons the members, and mark those whose groups change by it."""
    before = _read_member_ids(write.connection, key)
    gone = sorted(before - members)
    for first in range(0, len(gone), 5000):
        some = scim_members.c.user_id.in_(gone[first : first + 5000])
        write.execute(scim_members.delete().where(scim_members.c.group_id == key, some))
    new = [{"group_id": key, "user_id": one} for one in sorted(members - before)]
    if new:
        write.execute(scim_members.insert(), new)
    _mark_due(write, before ^ members)


def _mark_due(write: WriteTransaction, persons: Collection[int]) -> None:
    ids = sorted(persons)
    for first in range(0, len(ids), 5000):
        some = scim_users.c.id.in_(ids[first : first + 5000])
        write.execute(scim_users.update().where(some).values(is_due=True))
