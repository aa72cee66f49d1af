"""A grant says why its fence is no better than it is."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column("fence_why", sa.String(length=200), server_default="", nullable=False)
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "why", existing_type=sa.String(length=200), server_default="", existing_nullable=False
        )
