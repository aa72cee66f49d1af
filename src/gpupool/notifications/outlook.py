"""What is about to happen, of which no event tells: tokens that expire, reservations that begin."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gpupool.allocations.store.hold_tables import reservations
from gpupool.notifications.timing import NANOS
from gpupool.notifications.topics import Occurrence, Topic
from gpupool.tenancy.tables import tokens, users

#: Before the end of a token of a service account; of a short-lived one a fifth of its life.
TOKEN_NOTICE_NS: Final = 7 * 86_400 * NANOS
_TOKEN_PARTS: Final = 5
#: Before the begin of a reservation.
RESERVATION_NOTICE_NS: Final = 3600 * NANOS


def read_expiring_tokens(connection: sa.Connection, now_ns: int) -> list[Occurrence]:
    """Read the tokens of service accounts that expire soon; each is one occurrence of its user.

    The user that made the token hears of it, because a service account reads no mail.
    """
    life_ns = tokens.c.expires_ns - tokens.c.created_ns
    query = (
        sa.select(tokens, users.c.name.label("user"), users.c.tenant_id)
        .join(users, users.c.id == tokens.c.user_id)
        .where(
            users.c.user_kind == "service",
            users.c.disabled_ns.is_(None),
            users.c.retired_ns.is_(None),
            tokens.c.kind == "api",
            tokens.c.revoked_ns.is_(None),
            tokens.c.expires_ns > now_ns,
            tokens.c.expires_ns <= now_ns + TOKEN_NOTICE_NS,
            (tokens.c.expires_ns - now_ns) * _TOKEN_PARTS <= life_ns,
        )
        .order_by(tokens.c.id)
    )
    return [
        Occurrence(
            cause=f"expiry/{row.id}",
            kind=str(Topic.TOKEN_EXPIRING),
            subject=row.id,
            data={"name": row.label or row.id, "user": row.user, "at_ns": row.expires_ns},
            at_ns=now_ns,
            tenant_id=row.tenant_id,
            user_id=row.made_by_id,
        )
        for row in connection.execute(query)
    ]


def read_beginning_reservations(connection: sa.Connection, now_ns: int) -> list[Occurrence]:
    """Read the reservations that begin soon; each repetition is an occurrence of its own."""
    query = (
        sa.select(reservations)
        .where(
            reservations.c.state != "ended",
            reservations.c.start_ns > now_ns,
            reservations.c.start_ns <= now_ns + RESERVATION_NOTICE_NS,
        )
        .order_by(reservations.c.id)
    )
    return [
        Occurrence(
            cause=f"begin/{row.public_id}/{row.start_ns // NANOS}",
            kind=str(Topic.RESERVATION_BEGINS),
            subject=row.name,
            data={"name": row.name, "at_ns": row.start_ns},
            at_ns=now_ns,
            tenant_id=row.tenant_id,
            user_id=row.user_id,
        )
        for row in connection.execute(query)
    ]
