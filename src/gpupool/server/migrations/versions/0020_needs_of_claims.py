"""A claim says which isolation, goal and host it needs."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
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
                "needs",
                sa.JSON(none_as_null=True),
                nullable=True,
                comment="isolation, goal and host: model.isolation.claim_needs; null: any",
            )
        )
