"""Promised starts outlive a restart; what came of promises and of estimates is counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "start_tallies",
        sa.Column("sort", sa.String(length=63), nullable=False),
        sa.Column("kept", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sort", name=op.f("pk_start_tallies")),
    )
    op.create_table(
        "promises",
        sa.Column(
            "claim",
            sa.String(length=80),
            nullable=False,
            comment="a job or a gang, by its public id",
        ),
        sa.Column(
            "at_ns", sa.BigInteger(), nullable=False, comment="the first instant that was promised"
        ),
        sa.Column(
            "kept",
            sa.JSON(),
            nullable=False,
            comment="what is kept for it, as the scheduler has it",
        ),
        sa.PrimaryKeyConstraint("claim", name=op.f("pk_promises")),
    )
