"""Gangs are written and stopped in parts (decision 0025)."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_IS_UNSETTLED = "missing > 0 OR ending IS NOT NULL AND launch IS NOT NULL"


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("gangs", schema=None, recreate=copied) as batch_op:
        missing = sa.Column(
            "missing",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="members that are not written yet",
        )
        batch_op.add_column(missing)
        ending = sa.Column(
            "ending",
            sa.String(length=16),
            nullable=True,
            comment="why all of it is to end: as stop_requested of a job",
        )
        batch_op.add_column(ending)
        batch_op.add_column(sa.Column("ending_grace_s", sa.Integer(), nullable=True))
    condition = sa.text(_IS_UNSETTLED)
    op.create_index(
        "ix_gangs_unsettled", "gangs", ["id"], sqlite_where=condition, postgresql_where=condition
    )
