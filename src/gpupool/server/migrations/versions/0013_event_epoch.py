"""The event log has an id, so that a number of another log is found out."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

from gpupool.base.ids import new_id

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    comment = "id of the event log; new where its past was replaced"
    with op.batch_alter_table("pool", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "event_epoch",
                sa.String(length=16),
                nullable=False,
                server_default="",
                comment=comment,
            )
        )
    op.get_bind().execute(sa.text("UPDATE pool SET event_epoch = :epoch"), {"epoch": new_id("e")})
