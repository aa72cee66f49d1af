"""The endpoint /Users: persons as the provider writes them. Thread-safe; one transaction each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.ids import new_id
from gpupool.model.tenant import Principal
from gpupool.signon.scim.library import build_policy, load_scim
from gpupool.signon.scim.listing import build_page, find_lookup, parse_query
from gpupool.signon.scim.resources import build_user, read_user_columns
from gpupool.signon.scim.rights import PersonRights, ScimIssuer, read_issuer
from gpupool.signon.scim.rows import find_user_row, read_groups_of
from gpupool.signon.scim.tables import scim_members, scim_users
from gpupool.store.database import Store, WriteTransaction

Row = Any
_COLUMNS: Final = {
    "username": scim_users.c.name_key,
    "externalid": scim_users.c.external_id,
    "id": scim_users.c.public_id,
}
#: Persons whose rights one transaction looks at again.
_DUE_AT_ONCE: Final = 100


class ScimUsers:
    """Persons of one account at a time; another account's are not found."""

    def __init__(self, store: Store, rights: PersonRights) -> None:
        self._store = store
        self._rights = rights

    def list_users(self, caller: Principal, parameters: Mapping[str, str], base: str) -> Any:
        """List the persons that a filter finds, a page at a time."""
        request = parse_query(load_scim().User, parameters)
        lookup = find_lookup(request, _COLUMNS)
        query = sa.select(scim_users).where(scim_users.c.account_id == caller.user_id)
        if lookup is not None:
            query = query.where(lookup)
        with self._store.read() as connection:
            rows = connection.execute(query.order_by(scim_users.c.id)).all()

            def build(some: Sequence[Row]) -> list[Any]:
                groups = read_groups_of(connection, [row.id for row in some])
                return [build_user(row, groups.get(row.id, ()), base) for row in some]

            return build_page(request, rows, build, matched=lookup is not None), request

    def get_user(self, caller: Principal, user: str, base: str) -> Any:
        """Return a person."""
        with self._store.read() as connection:
            return _build(connection, find_user_row(connection, caller.user_id, user), base)

    def create_user(self, caller: Principal, body: Any, base: str) -> Any:
        """Add a person. Its user is made once a rule gives it rights."""
        scim = load_scim()
        user = scim.User.model_validate(
            body, scim_ctx=scim.Context.RESOURCE_CREATION_REQUEST, scim_policy=build_policy()
        )
        columns = read_user_columns(user)
        with self._store.write() as write:
            issuer = read_issuer(write.connection, caller)
            _refuse_taken(write, issuer, columns, None)
            key = write.insert(
                scim_users,
                public_id=new_id("p"),
                account_id=caller.user_id,
                identity_id=None,
                is_due=False,
                created_ns=write.now_ns,
                changed_ns=write.now_ns,
                **columns,
            )
            return self._finish(write, issuer, key, base)

    def replace_user(self, caller: Principal, user: str, body: Any, base: str) -> Any:
        """Write a person anew."""
        scim = load_scim()
        given = scim.User.model_validate(
            body, scim_ctx=scim.Context.RESOURCE_REPLACEMENT_REQUEST, scim_policy=build_policy()
        )
        with self._store.write() as write:
            row = find_user_row(write.connection, caller.user_id, user)
            with build_policy():
                given.replace(_build(write.connection, row, base))
            return self._write(write, caller, row, given, base)

    def patch_user(self, caller: Principal, user: str, body: Any, base: str) -> Any:
        """Apply operations to a person, all or none."""
        scim = load_scim()
        operations = scim.PatchOp.__class_getitem__(scim.User).model_validate(
            body, scim_ctx=scim.Context.RESOURCE_PATCH_REQUEST, scim_policy=build_policy()
        )
        with self._store.write() as write:
            row = find_user_row(write.connection, caller.user_id, user)
            patched = _build(write.connection, row, base)
            operations.patch(patched, scim_policy=build_policy())
            return self._write(write, caller, row, patched, base)

    def delete_user(self, caller: Principal, user: str) -> None:
        """Delete a person: its user is disabled and leaves; what it used stays in the books."""
        with self._store.write() as write:
            row = find_user_row(write.connection, caller.user_id, user)
            self._rights.remove(write, read_issuer(write.connection, caller), row)
            write.execute(scim_members.delete().where(scim_members.c.user_id == row.id))
            write.execute(scim_users.delete().where(scim_users.c.id == row.id))
            write.event("scim.user-deleted", row.user_name, tenant_id=caller.tenant_id)

    def settle_due(self, caller: Principal) -> None:
        """Give persons whose groups have changed their rights of now. Idempotent."""
        due = sa.select(scim_users).where(
            scim_users.c.account_id == caller.user_id, scim_users.c.is_due
        )
        while True:
            with self._store.read() as connection:
                if connection.execute(due.limit(1)).first() is None:
                    return
            with self._store.write() as write:
                issuer = read_issuer(write.connection, caller)
                rows = write.execute(due.order_by(scim_users.c.id).limit(_DUE_AT_ONCE)).all()
                groups = read_groups_of(write.connection, [row.id for row in rows])
                for row in rows:
                    names = [group.display_name for group in groups.get(row.id, ())]
                    self._settle_one(write, issuer, row, names)

    def _settle_one(
        self, write: WriteTransaction, issuer: ScimIssuer, row: Row, groups: Sequence[str]
    ) -> None:
        try:
            self._rights.apply(write, issuer, row, groups)
        except load_scim().SCIMException:
            # A login has moved the person to another tenant, whose groups are not this account's.
            mine = scim_users.c.id == row.id
            write.execute(scim_users.update().where(mine).values(is_due=False))

    def _write(
        self, write: WriteTransaction, caller: Principal, row: Row, user: Any, base: str
    ) -> Any:
        issuer = read_issuer(write.connection, caller)
        columns = read_user_columns(user)
        _refuse_taken(write, issuer, columns, row.id)
        mine = scim_users.c.id == row.id
        write.execute(scim_users.update().where(mine).values(**columns, changed_ns=write.now_ns))
        return self._finish(write, issuer, row.id, base)

    def _finish(self, write: WriteTransaction, issuer: ScimIssuer, key: int, base: str) -> Any:
        row = write.execute(sa.select(scim_users).where(scim_users.c.id == key)).one()
        groups = read_groups_of(write.connection, [key]).get(key, [])
        self._rights.apply(write, issuer, row, [group.display_name for group in groups])
        data = {"active": row.active, "account": issuer.name}
        write.event("scim.user-changed", row.user_name, tenant_id=issuer.tenant_id, data=data)
        return build_user(row, groups, base)


def _build(connection: sa.Connection, row: Row, base: str) -> Any:
    return build_user(row, read_groups_of(connection, [row.id]).get(row.id, ()), base)


def _refuse_taken(
    write: WriteTransaction, issuer: ScimIssuer, columns: Mapping[str, Any], key: int | None
) -> None:
    """Refuse a userName or externalId that another person of the account has."""
    same = scim_users.c.name_key == columns["name_key"]
    if columns["external_id"] is not None:
        same = sa.or_(same, scim_users.c.external_id == columns["external_id"])
    query = sa.select(scim_users.c.id).where(scim_users.c.account_id == issuer.account_id, same)
    if key is not None:
        query = query.where(scim_users.c.id != key)
    if write.execute(query).first() is not None:
        raise load_scim().UniquenessException(
            detail=f"{columns['user_name']} or its externalId is there already"
        )
