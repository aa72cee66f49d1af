"""Users: their identity, their Unix account, and the account that their jobs run as.

Rules kept here: only an admin gives a role above a tenant's admin; a tenant's admin
changes only its own tenant's users; the pool always keeps an admin that can act.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import (
    AccountIsAUser,
    BadOption,
    NameTaken,
    NoPermission,
    NotFound,
    StillInUse,
    TokenOfAnAccount,
    WrongState,
)
from gpupool.base.ids import check_name
from gpupool.model.tenant import OWN_TENANT_ROLES, Permission, Principal, UserRole
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.accounts import UnixAccounts, find_account
from gpupool.tenancy.logins import UserPasswords
from gpupool.tenancy.service_accounts import check_service_account
from gpupool.tenancy.sessions.ending import end_sessions_on_change
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.tenants import LiveJobs, find_tenant
from gpupool.tenancy.token_tree import end_foreign_tokens, end_tokens
from gpupool.tenancy.user_names import refuse_foreign_name
from gpupool.wire.common import Page
from gpupool.wire.people import UserIn, UserOut, UserPatch

Row = sa.Row[Any]

#: Topic announced whenever a user's identity or rights change.
PEOPLE = "people"


class UserService:
    """Users as their admins see them."""

    def __init__(self, store: Store, accounts: UnixAccounts, live_jobs: LiveJobs) -> None:
        self._store = store
        self._accounts = accounts
        self._live_jobs = live_jobs
        #: Set by the package that has them; None: no user has a password.
        self.passwords: UserPasswords | None = None

    def list(self, caller: Principal, after: str | None, limit: int) -> Page[UserOut]:
        query = (
            select_users()
            .where(match_visible(caller, users.c.tenant_id))
            .order_by(users.c.name)
            .limit(limit + 1)
        )
        with self._store.read() as connection:
            rows = connection.execute(query.where(users.c.name > after) if after else query).all()
        items = [self._user_out(row) for row in rows[:limit]]
        return Page[UserOut](items=items, next=items[-1].name if len(rows) > limit else None)

    def get(self, caller: Principal, name: str) -> UserOut:
        with self._store.read() as connection:
            return self._user_out(find_user(connection, caller, name))

    def create(self, caller: Principal, given: UserIn) -> UserOut:
        """Add a user; one that was deleted comes back under its name, with what is given now."""
        check_name(given.name, "user name")
        said = given.model_dump(include=given.model_fields_set & {"unix_user", "run_as"})
        changes = self._find_bindings(caller, said if any(said.values()) else {})
        # Before the transaction: what is refused anyway takes no turn of the one writer.
        _check_may_give(caller, UserRole(given.role))
        check_service_account(given.name, given.kind, given.role, changes.get("unix_uid"))
        with self._store.write() as write:
            tenant_id = find_tenant(write.connection, caller, given.tenant or caller.tenant).id
            if given.kind == "person":
                changes = _bind_one_person(write, given.name, None, changes)
            _take_uid(write, changes.get("unix_uid"), given.name)
            refuse_foreign_name(write, caller, given.name)
            insert_user(
                write, given.name, tenant_id, UserRole(given.role), user_kind=given.kind, **changes
            )
            out = self._user_out(find_user(write.connection, caller, given.name))
            write.event(
                "user.created",
                given.name,
                tenant_id=tenant_id,
                data={"role": out.role, "tenant": out.tenant},
            )
            write.announce(PEOPLE)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def change(self, caller: Principal, name: str, patch: UserPatch) -> UserOut:
        """Change what is given; `unix_user` and `run_as` given as null are unbound."""
        # Only what the body names: null and absent are two things here.
        given = patch.model_dump(include=patch.model_fields_set)
        changes = self._find_bindings(
            caller, {k: given[k] for k in ("unix_user", "run_as") if k in given}
        )
        with self._store.write() as write:
            row = find_user(write.connection, caller, name)
            check_may_manage(caller, row)
            changes |= self._collect_changes(write, caller, row, given)
            role = changes.get("role", row.role)
            check_service_account(row.name, row.user_kind, role, changes.get("unix_uid"))
            if row.user_kind == "person":
                changes = _bind_one_person(write, row.name, row, changes)
            end_foreign_tokens(write, row, changes)
            if self.passwords is not None:
                self.passwords.drop_foreign(write, row, changes)
            _take_uid(write, changes.get("unix_uid"), row.name)
            # In the transaction: two admins that demote each other at once must not both succeed.
            keep_an_admin(write.connection, row, changes)
            _write_changes(write, row, changes)
            out = self._user_out(find_user(write.connection, caller, name))
            write.event(
                "user.changed", row.name, tenant_id=row.tenant_id, data={"changed": sorted(given)}
            )
            write.announce(PEOPLE)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def delete(self, caller: Principal, name: str) -> None:
        """Take a user out; what it used stays in the books. Raises StillInUse while it has jobs."""
        with self._store.write() as write:
            row = find_user(write.connection, caller, name)
            check_may_manage(caller, row)
            self._refuse_while_running(write.connection, row, "deleted")
            changes = {"retired_ns": write.now_ns, "run_as_uid": None, "role": UserRole.USER}
            keep_an_admin(write.connection, row, changes)
            end_tokens(write, tokens.c.user_id == row.id)
            if self.passwords is not None:
                # Another person may get the name, and with it the row.
                self.passwords.forget(write, row.id)
            _write_changes(write, row, changes)
            write.event("user.deleted", row.name, tenant_id=row.tenant_id)
            write.announce(PEOPLE)
            write.answer(204, None)

    def _collect_changes(
        self, write: WriteTransaction, caller: Principal, row: Row, given: dict[str, Any]
    ) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if given.get("role") is not None:
            _check_may_give(caller, UserRole(given["role"]))
            changes["role"] = given["role"]
        if given.get("disabled") is not None:
            # Also of a user that sign-on disabled: the instant says whose act counts.
            changes["disabled_ns"] = write.now_ns if given["disabled"] else None
        if given.get("tenant") is not None and given["tenant"] != row.tenant:
            changes["tenant_id"] = find_tenant(write.connection, caller, given["tenant"]).id
            # A project of the tenant before, which the new one need not have.
            changes["default_project"] = None
            self._refuse_while_running(write.connection, row, f"moved to {given['tenant']}")
        return changes

    def _find_bindings(self, caller: Principal, given: dict[str, str | None]) -> dict[str, Any]:
        """Return the Unix accounts that a user is and runs as.

        For pool admins to say, never root over TCP.
        """
        if given and not caller.has_permission(Permission.MANAGE_POOL):
            raise NoPermission(
                "only an admin binds users to Unix accounts", hint="leave unix_user and run_as out"
            )
        found = {
            key: find_account(self._accounts, name) if name else None for key, name in given.items()
        }
        runs_as = found.get("run_as")
        if runs_as is not None and runs_as.uid == 0:
            raise BadOption("no job that comes over TCP runs as root", hint="name another account")
        columns = {"unix_user": "unix_uid", "run_as": "run_as_uid"}
        return {columns[key]: account.uid if account else None for key, account in found.items()}

    def _refuse_while_running(self, connection: sa.Connection, row: Row, verb: str) -> None:
        live = self._live_jobs(connection, None, row.id)
        if live:
            raise StillInUse(
                f"{row.name} has {live} job{'s' if live > 1 else ''} and cannot be {verb}",
                hint=f"gpupool ps --user {row.name}   shows them; gpupool stop ends one",
                jobs=live,
            )

    def _user_out(self, row: Row) -> UserOut:
        return UserOut(
            name=row.name,
            tenant=row.tenant,
            role=row.role,
            unix_user=self._account_name(row.unix_uid),
            run_as=self._account_name(row.run_as_uid),
            disabled=row.disabled_ns is not None,
            created_ns=row.created_ns,
            kind=row.user_kind,
        )

    def _account_name(self, uid: int | None) -> str | None:
        if uid is None:
            return None
        account = self._accounts.by_uid(uid)
        return account.name if account else str(uid)


def select_users() -> sa.Select[Any]:
    """Select users that are not deleted, each with its tenant's name."""
    query = sa.select(users, tenants.c.name.label("tenant")).join_from(users, tenants)
    return query.where(users.c.retired_ns.is_(None))


def find_user(connection: sa.Connection, caller: Principal, name: str) -> Row:
    """Return the user of that name in the caller's scope. Raises NotFound."""
    query = select_users().where(users.c.name == name, match_visible(caller, users.c.tenant_id))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"no user {name[:80]!r}", hint="gpupool user list")
    return row


def check_may_manage(caller: Principal, row: Row) -> None:
    """Raise NoPermission unless the caller may act for this user (its scope is checked already)."""
    if caller.has_permission(Permission.MANAGE_POOL):
        return
    if not caller.has_permission(Permission.MANAGE_TENANT) or row.tenant_id != caller.tenant_id:
        raise NoPermission(
            f"{caller.user} may not manage other users", hint="ask your tenant's admin"
        )
    if UserRole(row.role) not in OWN_TENANT_ROLES:
        raise NoPermission(
            f"{row.name} has the role {row.role}, which only an admin manages", hint="ask an admin"
        )


def check_may_stand_for(caller: Principal, user: sa.Row[Any]) -> None:
    """Refuse a token that runs code as a user's Unix account to that user's tenant-admin."""
    bound = user.run_as_uid is not None or user.unix_uid is not None
    if bound and not caller.has_permission(Permission.MANAGE_POOL):
        raise TokenOfAnAccount(
            f"{user.name} is bound to a Unix account: only {user.name} and a pool admin make its "
            "tokens",
            hint=f"{user.name} types, as that account on the pool's machine:  gpupool token create",
        )


def insert_user(
    write: WriteTransaction, name: str, tenant_id: int, role: UserRole, **columns: Any
) -> int:
    """Add the user, or bring a deleted one of that name back; return its id. Raises NameTaken."""
    values = {"run_as_uid": None, "unix_uid": None, "user_kind": "person"} | columns
    values |= {"default_project": None}
    values |= {"tenant_id": tenant_id, "role": str(role), "disabled_ns": None, "retired_ns": None}
    old = write.execute(sa.select(users).where(users.c.name == name)).one_or_none()
    if old is None:
        return write.insert(users, name=name, created_ns=write.now_ns, **values)
    if old.retired_ns is None:
        raise NameTaken(f"there is already a user {name!r}", hint="gpupool user list")
    write.execute(
        users.update().where(users.c.id == old.id).values(**values, generation=old.generation + 1)
    )
    return int(old.id)


def _write_changes(write: WriteTransaction, row: Row, changes: dict[str, Any]) -> None:
    end_sessions_on_change(write, row, changes)
    update = users.update().where(users.c.id == row.id)
    write.execute(update.values(**changes, generation=row.generation + 1))


def _check_may_give(caller: Principal, role: UserRole) -> None:
    if role not in OWN_TENANT_ROLES and not caller.has_permission(Permission.MANAGE_POOL):
        raise NoPermission(
            f"only an admin gives the role {role}",
            hint="a tenant's admin gives tenant-admin, user or viewer",
        )


def _bind_one_person(
    write: WriteTransaction, name: str, row: Row | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """Let the account that a user runs as be that user on the socket too; return the changes.

    Else the account's first call over the socket would make a second user of the same person.

    Raises:
        AccountIsAUser: The account is another user already.
    """
    uid = changes.get("run_as_uid")
    if uid is None or "unix_uid" in changes or (row is not None and row.unix_uid is not None):
        return changes
    same = select_users().where(users.c.unix_uid == uid, users.c.name != name)
    other = write.execute(same).one_or_none()
    if other is None:
        return changes | {"unix_uid": uid}
    raise AccountIsAUser(
        f"the Unix account with uid {uid} is the user {other.name} already",
        hint=f"gpupool user set {other.name} --run-as ACCOUNT;  for a second user of that account "
        "add --unix-user none",
        user=other.name,
        uid=uid,
    )


def _take_uid(write: WriteTransaction, uid: int | None, name: str) -> None:
    """Take a Unix uid from a deleted user that still has it.

    Refuse to take it from a living one.
    """
    if uid is None:
        return
    other = write.execute(
        sa.select(users).where(users.c.unix_uid == uid, users.c.name != name)
    ).one_or_none()
    if other is not None and other.retired_ns is None:
        raise NameTaken(
            f"uid {uid} is already the user {other.name!r}",
            hint=f"unbind it first: gpupool user set {other.name} --unix-user ''",
        )
    if other is not None:
        write.execute(users.update().where(users.c.id == other.id).values(unix_uid=None))


def keep_an_admin(connection: sa.Connection, row: Row, changes: dict[str, Any]) -> None:
    """Raise WrongState if the pool would have no admin after these changes of a user."""
    after = {"role": row.role, "disabled_ns": row.disabled_ns, "retired_ns": None} | changes
    stays = (
        after["role"] == UserRole.ADMIN
        and after["disabled_ns"] is None
        and after["retired_ns"] is None
    )
    if stays or row.role != UserRole.ADMIN or row.disabled_ns is not None:
        return
    others = select_users().where(
        users.c.role == UserRole.ADMIN, users.c.disabled_ns.is_(None), users.c.id != row.id
    )
    # Without an admin nothing could be mended but by root in the database.
    if connection.execute(others.limit(1)).first() is None:
        raise WrongState(
            f"{row.name} is the pool's last admin and must stay one",
            hint="make another first: gpupool user set NAME --role admin",
        )
