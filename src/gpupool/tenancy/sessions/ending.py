"""Ends sessions inside the transaction of what ends them: a logout, a revoked token, a change of a
user's role or tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.store.database import WriteTransaction
from gpupool.tenancy.sessions.tables import sessions


def end_sessions(write: WriteTransaction, which: sa.ColumnElement[bool]) -> int:
    """End these sessions now; return how many had not ended before."""
    ended = write.execute(
        sessions.update().where(which, sessions.c.ended_ns.is_(None)).values(ended_ns=write.now_ns)
    ).rowcount
    if ended:
        # Principals of these sessions are forgotten with the commit, not a moment later.
        write.announce("people")
    return int(ended)


def end_sessions_on_change(
    write: WriteTransaction, user: sa.Row[Any], changes: Mapping[str, object]
) -> None:
    """End a user's sessions where it is disabled or deleted, or gets another role or tenant.

    A session has the rights that its user had at its login: an old cookie gets no right that is
    granted later.
    """
    leaves = changes.get("disabled_ns") is not None or changes.get("retired_ns") is not None
    moves = any(
        key in changes and changes[key] != getattr(user, key) for key in ("role", "tenant_id")
    )
    if leaves or moves:
        end_sessions(write, sessions.c.user_id == user.id)
