"""How much of a card each job used for how long: a histogram per job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0061"
down_revision = "0060"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "use_histograms",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False, comment="one of its cards"),
        sa.Column("cards", sa.Integer(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False, comment="of a card; 0: no promise"),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False, comment="of a card"),
        sa.Column("bins", sa.JSON(), nullable=False, comment="milliseconds by use: rightsizing"),
        sa.Column("highest_milli", sa.Integer(), nullable=False),
        sa.Column("limited_milliseconds", sa.BigInteger(), nullable=False, comment="at its limit"),
        sa.Column(
            "limited_gpu_milli", sa.Integer(), nullable=False, comment="most under which; 0: never"
        ),
        sa.Column("peak_bytes", sa.BigInteger(), nullable=True, comment="of a card; null: unknown"),
        sa.Column("since_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False, comment="counted up to here"),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_use_histograms_device_id")
        ),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_use_histograms")),
    )
    op.create_index(
        op.f("ix_use_histograms_until_ns"), "use_histograms", ["until_ns"], unique=False
    )
