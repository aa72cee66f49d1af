"""Passwords that another than their user knows, and what ends with them.

A password is foreign unless its user or a pool admin set it, as a token is (decision 0129). All
functions write in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.model.tenant import Principal, UserRole
from gpupool.signon.tables import passwords
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users
from gpupool.tenancy.token_tree import end_tokens, find_root_maker, is_widening

Row = sa.Row[Any]


def find_setter(connection: sa.Connection, caller: Principal, user: Row) -> int | None:
    """Find by whose word a caller sets a password; None: not known.

    A user that changes its own over the network knows the earlier one, as its setter does. With a
    token, it is set by the word of the token's maker.
    """
    if caller.user_id != user.id or caller.has_peer_credentials:
        return caller.user_id
    query = sa.select(passwords.c.set_by_id).where(passwords.c.user_id == user.id)
    row = connection.execute(query).one_or_none()
    if row is not None:
        return None if row.set_by_id is None else int(row.set_by_id)
    # A session without a token came by an identity provider.
    return caller.user_id if caller.token is None else find_root_maker(connection, caller.token)


def end_foreign_logins(write: WriteTransaction, user_id: int, *, unknown: bool = False) -> bool:
    """End what a foreign password of the user may have made; return whether there is one.

    These are all sessions, and all tokens but those that a pool admin made.

    Args:
        unknown: whether a password of which the setter is not known counts too.
    """
    admins = sa.select(users.c.id).where(users.c.role == str(UserRole.ADMIN))
    # 0 is the id of no user.
    setter = sa.func.coalesce(passwords.c.set_by_id, 0 if unknown else user_id)
    is_foreign = sa.and_(setter != user_id, setter.not_in(admins))
    foreign = sa.select(passwords.c.user_id).where(passwords.c.user_id == user_id, is_foreign)
    if write.execute(foreign).first() is None:
        return False
    by_admin = sa.func.coalesce(tokens.c.made_by_id.in_(admins), sa.false())
    end_tokens(write, sa.and_(tokens.c.user_id == user_id, by_admin.is_(sa.false())))
    end_sessions(write, sessions.c.user_id == user_id)
    return True


def drop_foreign_password(write: WriteTransaction, user: Row, changes: Mapping[str, Any]) -> None:
    """Remove a foreign password, and what it made, where changes widen the user's rights."""
    if not is_widening(user, changes) or not end_foreign_logins(write, user.id, unknown=True):
        return
    forget_password(write, user.id)
    data = {"changed": ["password"], "reason": "set by another user"}
    write.event("user.changed", user.name, tenant_id=user.tenant_id, data=data)


def forget_password(write: WriteTransaction, user_id: int) -> bool:
    """Remove the password and the authenticator of a user; return whether it had one."""
    return write.execute(passwords.delete().where(passwords.c.user_id == user_id)).rowcount > 0


class PasswordKeeper:
    """The passwords of users, as tenancy sees them (`tenancy.logins.UserPasswords`)."""

    drop_foreign = staticmethod(drop_foreign_password)
    forget = staticmethod(forget_password)
