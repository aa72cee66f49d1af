"""An allocation says by which mechanism it was prepared, and what enforces each dimension."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_MECHANISM = sa.Column(
    "mechanism", sa.String(32), nullable=True, comment="null: its node has not said"
)
_HOLDS = sa.Column(
    "holds", sa.JSON(), nullable=True, comment="enforcement level by dimension; null: unknown"
)


def upgrade() -> None:
    # Copied on SQLite, so that the definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(_MECHANISM)
        batch_op.add_column(_HOLDS)
        # Copied as they stand, SQLite would keep the default as ('').
        for name in ("why", "fence_why"):
            batch_op.alter_column(
                name, existing_type=sa.String(200), server_default="", existing_nullable=False
            )
