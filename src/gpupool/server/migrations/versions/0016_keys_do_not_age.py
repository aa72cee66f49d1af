"""The time in which no server ran is kept once, and not added to every Idempotency-Key."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("pool", schema=None, recreate=copied) as batch_op:
        comment = "ledger time in which no server ran: Idempotency-Keys do not age in it"
        batch_op.add_column(
            sa.Column(
                "idle_ns", sa.BigInteger(), server_default="0", nullable=False, comment=comment
            )
        )
        batch_op.alter_column(
            "event_epoch",
            existing_type=sa.String(length=16),
            server_default="",
            existing_nullable=False,
        )
    with op.batch_alter_table("idempotency", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "created_ns",
            existing_type=sa.BigInteger(),
            existing_nullable=False,
            comment="ledger time less the pool's idle_ns",
        )
