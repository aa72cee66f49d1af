"""An allocation says which layers its node added, and which mechanisms it refused."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "layers", sa.JSON(), comment="added to the mechanism, in order; null: unknown"
            )
        )
        batch_op.add_column(
            sa.Column("refused", sa.JSON(), comment="mechanisms that its node refused, and why")
        )
        # Copied as they stand, SQLite would keep the default as ('').
        for name in ("why", "fence_why"):
            batch_op.alter_column(
                name, existing_type=sa.String(200), server_default="", existing_nullable=False
            )
