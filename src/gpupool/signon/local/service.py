"""Local accounts: they log in also while every identity provider is down.

Five wrong passwords in a row lock the account for 30 s, each further one for twice as long, up to
15 minutes. The lock is in the store: a restart does not open it. Over the Unix socket an admin gets
in at any time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from gpupool.base.errors import BadOption, NoPermission, NotFound, WrongPassword
from gpupool.model.tenant import Principal
from gpupool.signon.local import totp
from gpupool.signon.local.foreign_passwords import (
    end_foreign_logins,
    find_setter,
    forget_password,
)
from gpupool.signon.local.locks import count_failure, refuse_locked
from gpupool.signon.local.password_rights import (
    check_may_act_for,
    refuse_limited,
    refuse_own_removal,
)
from gpupool.signon.local.passwords import PasswordHashes, check_password
from gpupool.signon.tables import passwords
from gpupool.store.acts import name_object
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.tables import pool
from gpupool.tenancy.logins import LoginGrant, find_login_user
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users
from gpupool.tenancy.token_tree import end_tokens
from gpupool.tenancy.tokens import TokenService
from gpupool.tenancy.users import find_user
from gpupool.wire.people import LoginOut
from gpupool.wire.signon import PasswordLoginIn, TotpOut

Row = sa.Row[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class _PasswordCheck:
    """What was read before the hash was computed, which takes no turn of the one writer."""

    row: Row | None
    is_right: bool


class LocalLogins:
    """Passwords and authenticators of users. Thread-safe; blocks on the store and 50 ms on a hash."""

    def __init__(self, store: Store, issuer: TokenService, hashes: PasswordHashes) -> None:
        self._store = store
        self._issuer = issuer
        self._hashes = hashes

    def has_accounts(self) -> bool:
        """Return whether any user has a password."""
        with self._store.read() as connection:
            return connection.execute(sa.select(passwords.c.user_id).limit(1)).first() is not None

    def open_token(self, body: PasswordLoginIn) -> LoginOut:
        """Exchange a password, and the code of an authenticator, for a session of a command line.

        Raises:
            WrongPassword: user, password or code is wrong.
            LoginLocked: too many were wrong.
        """
        return self.open_session(body, self._issuer.open_session)

    def open_session(
        self, body: PasswordLoginIn, opener: Callable[[WriteTransaction, LoginGrant], T]
    ) -> T:
        """Exchange a password, and the code of an authenticator, for what `opener` makes.

        Raises:
            WrongPassword: user, password or code is wrong.
            LoginLocked: too many were wrong.
        """
        checked = self._check_password(body)
        with self._store.write() as write:
            row = self._read_row(write.connection, body.user)
            if row is not None:
                refuse_locked(row, write.now_ns)
                if self._judge(write, row, checked, body):
                    user = find_login_user(write.connection, row.user_id)
                    return opener(write, LoginGrant(user, may_mint=True))
        # After the commit: a failure must be counted.
        raise WrongPassword(
            "user, password or code is wrong",
            hint="with an authenticator its code of now is needed too",
        )

    def set_password(
        self, caller: Principal, name: str, password: str, current: str | None
    ) -> None:
        """Set a user's password; its sessions end. The caller's own, or as an admin another user's.

        Raises:
            BadOption: the password is too weak, or the user is a program.
            NoPermission: the user is not the caller's to manage.
            WrongPassword: the current one is wrong.
            LoginLocked: too many were wrong.
        """
        check_password(password, name)
        with self._store.read() as connection:
            user = find_user(connection, caller, name)
            row = self._read_row(connection, name)
        self._check_may_change(caller, user, row, current)
        made = self._hashes.make_hash(password)
        with self._store.write() as write:
            user = find_user(write.connection, caller, name)
            if user.user_kind == "service":
                raise BadOption(
                    f"{name} is a service account, which logs in by tokens alone",
                    hint=f"gpupool token create --user {name}",
                )
            # Once more: its rights may have changed while the hash was made.
            check_may_act_for(caller, user)
            if user.id != caller.user_id or caller.has_peer_credentials:
                end_foreign_logins(write, user.id)
            values = {
                "password_hash": made,
                "changed_ns": write.now_ns,
                "failures": 0,
                "locked_until_ns": 0,
                "set_by_id": find_setter(write.connection, caller, user),
            }
            mine = passwords.c.user_id == user.id
            if write.execute(passwords.update().where(mine).values(**values)).rowcount == 0:
                write.execute(passwords.insert().values(user_id=user.id, **values))
            self._finish_change(write, caller, user, "password")
            write.answer(204, None)

    def remove_password(self, caller: Principal, name: str) -> None:
        """Remove a user's password and authenticator; its sessions end.

        Raises:
            NotFound: it has none.
            NoPermission: the user is not the caller's to manage, or is the caller over the network.
        """
        with self._store.write() as write:
            user = find_user(write.connection, caller, name)
            check_may_act_for(caller, user)
            refuse_own_removal(caller, user, is_totp=False)
            end_foreign_logins(write, user.id)
            if not forget_password(write, user.id):
                raise _make_no_password(name)
            self._finish_change(write, caller, user, "password")
            write.answer(204, None)

    def begin_totp(self, caller: Principal, name: str) -> TotpOut:
        """Make the secret of an authenticator; it counts once a code of it was right.

        Raises:
            NotFound: the user has no password.
            NoPermission: the user is another than the caller.
        """
        secret = totp.write_secret(secrets.token_bytes(totp.SECRET_BYTES))
        with self._store.write() as write:
            user = self._find_self(write, caller, name)
            row = self._require_password(write, user)
            if row.totp_confirmed:
                raise BadOption(
                    f"{name} has an authenticator",
                    hint=f"gpupool user totp {name} --remove   first",
                )
            column = passwords.c.totp_secret
            encrypted = self._store.secrets.encrypt(write, column, user.id, secret)
            values = {"totp_secret": encrypted, "totp_confirmed": False, "totp_step": 0}
            self._update(write, user.id, values)
            pool_id = write.execute(sa.select(pool.c.pool_id)).scalar_one()
            # A repetition must not get the secret again.
            write.answer_once(f"authenticator of {name}")
        return TotpOut(secret=secret, uri=totp.make_uri(secret, name, pool_id))

    def confirm_totp(self, caller: Principal, name: str, code: str) -> None:
        """Let the authenticator count from now on.

        Raises:
            WrongPassword: the code is wrong.
            NotFound: no secret was made.
        """
        with self._store.write() as write:
            user = self._find_self(write, caller, name)
            row = self._require_password(write, user)
            if row.totp_secret is None:
                raise NotFound(
                    f"{name} has no authenticator to confirm", hint=f"gpupool user totp {name}"
                )
            step = self._find_step(row, code, write.now_ns)
            if step is None:
                raise WrongPassword(
                    "the code is wrong, or the clocks differ by more than 30 s",
                    hint="wait for the next code and try again",
                )
            self._update(write, user.id, {"totp_confirmed": True, "totp_step": step})
            write.event("user.totp_set", user.name, tenant_id=user.tenant_id)
            write.answer(204, None)

    def remove_totp(self, caller: Principal, name: str) -> None:
        """Remove the authenticator of a user: an admin's work, for a lost telephone.

        Raises:
            NotFound: the user has no password.
            NoPermission: the user is not the caller's to manage.
        """
        with self._store.write() as write:
            user = find_user(write.connection, caller, name)
            check_may_act_for(caller, user)
            refuse_own_removal(caller, user, is_totp=True)
            self._require_password(write, user)
            self._update(write, user.id, {"totp_secret": None, "totp_confirmed": False})
            self._finish_change(write, caller, user, "totp")
            write.answer(204, None)

    def _check_password(self, body: PasswordLoginIn) -> _PasswordCheck:
        with self._store.read() as connection:
            row = self._read_row(connection, body.user)
            if row is not None:
                # For the audit log. Only of an account that exists: an unknown name may be a password.
                name_object(body.user)
                refuse_locked(row, self._store.clock.now_ns())
        stored = None if row is None else row.password_hash
        return _PasswordCheck(row, self._hashes.is_right(stored, body.password))

    def _judge(
        self, write: WriteTransaction, row: Row, checked: _PasswordCheck, body: PasswordLoginIn
    ) -> bool:
        """Return whether a login is right; count it if not. The row is of this transaction."""
        is_same = checked.row is not None and checked.row.password_hash == row.password_hash
        step: int | None = row.totp_step
        if row.totp_confirmed:
            # Before the password is judged: a missing key must not tell whether it was right.
            step = self._find_step(row, body.totp or "", write.now_ns)
        if not (checked.is_right and is_same and step is not None):
            count_failure(write, row)
            return False
        right = {"failures": 0, "locked_until_ns": 0, "totp_step": step}
        self._update(write, row.user_id, right)
        # Loud in the log: with an identity provider local logins are the exception.
        write.event(
            "signon.login",
            row.name,
            tenant_id=row.tenant_id,
            data={"provider": "local", "totp": bool(row.totp_confirmed)},
        )
        return True

    def _find_step(self, row: Row, code: str, now_ns: int) -> int | None:
        column = passwords.c.totp_secret
        secret = self._store.secrets.decrypt(column, row.user_id, row.totp_secret)
        return totp.find_step(secret, code, now_ns, row.totp_step)

    @staticmethod
    def _read_row(connection: sa.Connection, name: str) -> Row | None:
        query = (
            sa.select(passwords, users.c.name, users.c.tenant_id)
            .join_from(passwords, users)
            .where(users.c.name == name, users.c.disabled_ns.is_(None))
            .where(users.c.retired_ns.is_(None))
        )
        return connection.execute(query).one_or_none()

    def _check_may_change(
        self, caller: Principal, user: Row, row: Row | None, current: str | None
    ) -> None:
        if user.id != caller.user_id:
            check_may_act_for(caller, user)
            refuse_limited(caller, user)
            return
        # A stolen token must not become a password, which outlives it.
        if caller.has_peer_credentials:
            return
        if row is None and caller.may_mint and caller.scopes is None:
            return
        if row is not None:
            refuse_locked(row, self._store.clock.now_ns())
        stored = None if row is None else row.password_hash
        if current is not None and self._hashes.is_right(stored, current):
            return
        if current is not None:
            self._count_guess(user.name)
        raise WrongPassword(
            "the current password is needed to set another one, and it is wrong or missing",
            hint="an admin sets a new one: gpupool user password NAME",
        )

    def _count_guess(self, name: str) -> None:
        """Count a wrong current password as a login counts it: a token may be stolen."""
        with self._store.write() as write:
            row = self._read_row(write.connection, name)
            if row is not None:
                count_failure(write, row)

    @staticmethod
    def _find_self(write: WriteTransaction, caller: Principal, name: str) -> Row:
        user = find_user(write.connection, caller, name)
        refuse_limited(caller, user)
        # Its secret is for one person's eyes.
        if user.id != caller.user_id:
            raise NoPermission(
                f"only {user.name} makes its authenticator",
                hint=f"an admin removes one: gpupool user totp {user.name} --remove",
            )
        return user

    @staticmethod
    def _require_password(write: WriteTransaction, user: Row) -> Row:
        query = sa.select(passwords).where(passwords.c.user_id == user.id)
        row = write.execute(query).one_or_none()
        if row is None:
            raise _make_no_password(user.name)
        return row

    @staticmethod
    def _update(write: WriteTransaction, user_id: int, values: dict[str, Any]) -> None:
        mine = passwords.c.user_id == user_id
        write.execute(passwords.update().where(mine).values(**values))

    @staticmethod
    def _finish_change(write: WriteTransaction, caller: Principal, user: Row, what: str) -> None:
        mine = sa.and_(tokens.c.user_id == user.id, tokens.c.kind == "session")
        # The session that the change came by goes on.
        others = mine if caller.token is None else sa.and_(mine, tokens.c.id != caller.token)
        end_tokens(write, others)
        browsers = sessions.c.user_id == user.id
        if caller.session is not None:
            browsers = sa.and_(browsers, sessions.c.id != caller.session)
        end_sessions(write, browsers)
        data = {"changed": [what]}
        write.event("user.changed", user.name, tenant_id=user.tenant_id, data=data)


def _make_no_password(name: str) -> NotFound:
    return NotFound(f"{name} has no password", hint=f"gpupool user password {name}")
