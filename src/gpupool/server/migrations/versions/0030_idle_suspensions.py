"""A claim can agree to be suspended while it is idle; a suspension says for which claim it is."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "idle_seconds",
                sa.Integer(),
                nullable=True,
                comment="it may be suspended when its cards were idle for so long; null: never",
            )
        )
    with op.batch_alter_table("suspensions", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "beneficiary",
                sa.String(16),
                nullable=True,
                comment="job, gang or array that it makes room for, as it was idle; null: by hand",
            )
        )
        batch_op.add_column(
            sa.Column(
                "wanted_ns",
                sa.BigInteger(),
                nullable=True,
                comment="since when a program of it waits to work again; null: none does",
            )
        )
