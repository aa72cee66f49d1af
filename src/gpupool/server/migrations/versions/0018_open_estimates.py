"""Estimates that nothing came of yet outlive a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "estimates",
        sa.Column(
            "claim",
            sa.String(length=80),
            nullable=False,
            comment="a job or a gang, by its public id",
        ),
        sa.Column("sort", sa.String(length=63), nullable=False, comment="as in start_tallies"),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "chance_pct",
            sa.Integer(),
            nullable=True,
            comment="told with it; null: too little was known",
        ),
        sa.PrimaryKeyConstraint("claim", "sort", name=op.f("pk_estimates")),
    )
