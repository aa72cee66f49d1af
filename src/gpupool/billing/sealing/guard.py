"""Refuse what would change a sealed month."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.errors import SealedMonth
from gpupool.billing.sealing.tables import month_seals


def refuse_sealed(connection: sa.Connection, since_s: int, what: str) -> None:
    """Raise SealedMonth if a month that is sealed ends after an instant.

    Args:
        since_s: from when on something would change.
        what: would change it, for the message.
    """
    query = (
        sa.select(month_seals.c.month)
        .where(month_seals.c.end_s > since_s)
        .order_by(month_seals.c.end_s.desc())
        .limit(1)
    )
    month = connection.execute(query).scalar_one_or_none()
    if month is not None:
        raise SealedMonth(
            f"{what} would change {month}, which is sealed",
            hint="let it begin later; a sealed month is corrected by an entry: gpupool report adjust",
            month=month,
        )
