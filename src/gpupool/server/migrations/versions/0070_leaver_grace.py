"""A leaver's jobs can be left alone for a time, in which its groups may come back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0068"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "leavers",
        sa.Column("due_ns", sa.BigInteger(), nullable=True, comment="not before; null: at once"),
    )
