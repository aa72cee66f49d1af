"""Members of a gang are found by their state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_IS_MEMBER = "gang_id IS NOT NULL"


def upgrade() -> None:
    op.drop_index("ix_jobs_gang_id", table_name="jobs")
    condition = sa.text(_IS_MEMBER)
    op.create_index(
        "ix_jobs_gang_member",
        "jobs",
        ["gang_id", "state", "launcher"],
        sqlite_where=condition,
        postgresql_where=condition,
    )
