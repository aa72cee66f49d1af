"""What a login gives its token for: the user that may log in, and until when.

Used by `gpupool login`, which gets a token of the kind `session`, and by the console, which gets a
session with a cookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from gpupool.store.acts import ActActor, name_actor
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.token_secrets import (
    is_alive,
    is_same_secret,
    make_refused_token,
    parse_token,
)
from gpupool.tenancy.token_tree import find_latest_end


@dataclass(frozen=True)
class LoginGrant:
    """A user that may log in, and what bounds the session that it gets."""

    #: The user's row, with the name of its tenant as `tenant`.
    user: sa.Row[Any]
    #: The token of the login, with which the session ends; None: another way of signing on.
    token_id: str | None = None
    may_mint: bool = False
    #: When the session ends at the latest; None: by its own time alone.
    bound_ns: int | None = None
    #: Of the token of the login, as its column; None: all that the role may.
    scopes: str | None = None
    #: The account that made the link for itself over the Unix socket; None: another token.
    unix_uid: int | None = None


class UserPasswords(Protocol):
    """What becomes of a user's password: the seam to the package that has them."""

    def drop_foreign(
        self, write: WriteTransaction, user: sa.Row[Any], changes: Mapping[str, Any]
    ) -> None:
        """Remove a password that another user set, where changes widen the user's rights."""

    def forget(self, write: WriteTransaction, user_id: int) -> bool:
        """Remove the password of a user that is deleted."""


def redeem_token(write: WriteTransaction, text: str) -> LoginGrant:
    """Return what an api or a once token lets in; a once token is used up with it.

    Raises NotLoggedIn: unknown, wrong and ended are answered alike, so that a guess learns nothing.
    """
    given = parse_token(text)
    if given is None:
        raise make_refused_token()
    row = write.execute(
        sa.select(tokens, users.c.disabled_ns, users.c.retired_ns)
        .join_from(tokens, users, users.c.id == tokens.c.user_id)
        .where(tokens.c.id == given.id)
    ).one_or_none()
    if (
        row is None
        or not is_same_secret(given, row.secret_sha256)
        or not _may_log_in(row, write.now_ns)
    ):
        raise make_refused_token()
    if row.kind == "once":
        used = tokens.update().where(tokens.c.id == given.id).values(revoked_ns=write.now_ns)
        write.execute(used)
        write.announce("people")
    return LoginGrant(
        find_login_user(write.connection, row.user_id),
        row.id,
        row.may_mint,
        find_latest_end(write.connection, row.id),
        row.scopes,
        row.unix_uid,
    )


def find_login_user(connection: sa.Connection, user_id: int) -> sa.Row[Any]:
    """Return the row of a user with the name of its tenant; the audit log names it as the actor."""
    query = sa.select(users, tenants.c.name.label("tenant")).join_from(users, tenants)
    user = connection.execute(query.where(users.c.id == user_id)).one()
    name_actor(ActActor(user.name, user.tenant, user.tenant_id, user.role))
    return user


# A session is no token to log in with: it would renew itself for ever.
def _may_log_in(row: sa.Row[Any], now_ns: int) -> bool:
    usable = is_alive(row, now_ns) and row.kind in ("api", "once")
    return usable and row.disabled_ns is None and row.retired_ns is None
