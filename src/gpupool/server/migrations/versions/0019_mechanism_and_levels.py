"""An allocation has its mechanism and what enforces each dimension; cards switch modes."""

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
_HOLDS = sa.Column("holds", sa.JSON(), nullable=True, comment="level by dimension; null: unknown")


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
    op.create_table(
        "mode_switches",
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False, comment="what was asked for"),
        sa.Column(
            "state_before",
            sa.String(length=16),
            nullable=False,
            comment="what the card returns to",
        ),
        sa.Column(
            "reason", sa.String(length=400), nullable=False, comment="what its agent waits for"
        ),
        sa.Column("begun_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "work_seq",
            sa.BigInteger(),
            nullable=False,
            comment="when its agent last had news of it",
        ),
        sa.ForeignKeyConstraint(
            ["device_id"], ["devices.id"], name=op.f("fk_mode_switches_device_id")
        ),
        sa.PrimaryKeyConstraint("device_id", name=op.f("pk_mode_switches")),
    )
