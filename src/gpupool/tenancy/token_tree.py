"""Which token made which: what ends with a token, and how long what it makes may live.

A token names its parent, the token that its maker came with; a session's parent is the token of its
login. Knows no rights: `tokens` says which caller may make tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.model.tenant import OWN_TENANT_ROLES, UserRole
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users


def end_tokens(write: WriteTransaction, which: sa.ColumnElement[bool]) -> int:
    """End these tokens, the tokens and sessions that they made, and theirs.

    Return how many lived.
    """
    tree = sa.select(tokens.c.id).where(which).cte("token_tree", recursive=True)
    # union, not union_all: it ends also where a cycle was written into the table by hand.
    tree = tree.union(sa.select(tokens.c.id).join(tree, tokens.c.parent_id == tree.c.id))
    alive = sa.select(tokens.c.id).where(
        tokens.c.id.in_(sa.select(tree.c.id)), tokens.c.revoked_ns.is_(None)
    )
    ids = write.execute(alive).scalars().all()
    write.execute(tokens.update().where(tokens.c.id.in_(ids)).values(revoked_ns=write.now_ns))
    # Of the whole tree: a once token was used up by the login, and its session lives.
    end_sessions(write, sessions.c.token_id.in_(sa.select(tree.c.id)))
    # Cached principals of these tokens are forgotten with the commit, not a moment later.
    write.announce("people")
    return len(ids)


def match_foreign_tokens(user_id: int) -> sa.ColumnElement[bool]:
    """Match tokens of a user that neither the user nor a pool admin has made."""
    admins = sa.select(users.c.id).where(users.c.role == str(UserRole.ADMIN))
    by_whom = sa.or_(tokens.c.made_by_id == user_id, tokens.c.made_by_id.in_(admins))
    return sa.and_(
        tokens.c.user_id == user_id, sa.func.coalesce(by_whom, sa.false()).is_(sa.false())
    )


def is_widening(user: sa.Row[Any], changes: Mapping[str, Any]) -> bool:
    """Return whether changes give a user what the admin of its tenant may not give.

    A Unix account, a role beyond the tenant, or another tenant: what others can log in with as
    this user, as a token that they made, must not get it.
    """
    for key in ("unix_uid", "run_as_uid", "tenant_id"):
        if changes.get(key) not in (None, getattr(user, key)):
            return True
    role = changes.get("role", user.role)
    return role != user.role and UserRole(role) not in OWN_TENANT_ROLES


def end_foreign_tokens(
    write: WriteTransaction, user: sa.Row[Any], changes: Mapping[str, Any]
) -> None:
    """End tokens of a user that others made, where changes widen its rights.

    Call it in the transaction of the change: no token lives for a moment with the new rights.
    """
    if is_widening(user, changes) and (ended := end_tokens(write, match_foreign_tokens(user.id))):
        data = {"user": user.name, "ended": ended}
        write.event("token.revoked", user.name, tenant_id=user.tenant_id, data=data)


def find_root_maker(connection: sa.Connection, token_id: str) -> int | None:
    """Return the user that made the first of the tokens that led to this one; None: not known."""
    row = connection.execute(sa.select(tokens).where(tokens.c.id == token_id)).one()
    while row.parent_id is not None:
        row = connection.execute(sa.select(tokens).where(tokens.c.id == row.parent_id)).one()
    return None if row.made_by_id is None else int(row.made_by_id)


def find_latest_end(connection: sa.Connection, parent_id: str | None) -> int | None:
    """Return when a child of this token ends at the latest; None: no bound.

    A one-time token's own few minutes bound its login and not the session; what made it bounds
    both.
    """
    bound: int | None = None
    while parent_id is not None:
        row = connection.execute(sa.select(tokens).where(tokens.c.id == parent_id)).one()
        bound = choose_earlier_end(bound, None if row.kind == "once" else row.expires_ns)
        parent_id = row.parent_id
    return bound


def choose_earlier_end(ends_ns: int | None, bound_ns: int | None) -> int | None:
    """Return the earlier of two ends, None being never."""
    if ends_ns is None or bound_ns is None:
        return bound_ns if ends_ns is None else ends_ns
    return min(ends_ns, bound_ns)
