"""Lists of jobs have an order: by submission, start, end, name and compute; and images are found."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

_INDEXES = (
    ("ix_jobs_submitted_ns", ["submitted_ns", "id"]),
    ("ix_jobs_tenant_id_submitted_ns", ["tenant_id", "submitted_ns", "id"]),
    ("ix_jobs_user_id_submitted_ns", ["user_id", "submitted_ns", "id"]),
    ("ix_jobs_started_ns", ["started_ns", "id"]),
    ("ix_jobs_tenant_id_started_ns", ["tenant_id", "started_ns", "id"]),
    ("ix_jobs_name", ["name", "id"]),
    ("ix_jobs_total_milli", ["total_milli", "id"]),
    ("ix_jobs_tenant_id_total_milli", ["tenant_id", "total_milli", "id"]),
)


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column("image", sa.String(512), nullable=True, comment="container image; null: none")
        )
    with op.batch_alter_table("jobs", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "total_milli",
                sa.BigInteger(),
                nullable=False,
                server_default="0",
                comment="compute that it asks for, of all its cards",
            )
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "reason", existing_type=sa.String(400), server_default="", existing_nullable=False
        )
    # The images of earlier jobs are unknown where they have ended; their compute is not.
    op.execute(
        "UPDATE jobs SET total_milli = "
        "(SELECT gpu_milli * cards FROM claims WHERE claims.id = jobs.claim_id)"
    )
    for name, columns in _INDEXES:
        op.create_index(name, "jobs", columns)
