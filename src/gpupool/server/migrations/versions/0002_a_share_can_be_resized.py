"""A share can be resized: what its node has put in force, and more than one interval for a seat."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("allocations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "applied_generation",
                sa.BigInteger(),
                nullable=True,
                comment="what its node last said is in force",
            )
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "why", existing_type=sa.String(length=200), server_default="", existing_nullable=False
        )
    op.execute("UPDATE allocations SET applied_generation = generation WHERE state <> 'granted'")

    with op.batch_alter_table("intervals", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("uq_intervals_allocation_id_device_id"), type_="unique")
        batch_op.create_index(
            "uq_intervals_open",
            ["allocation_id", "device_id"],
            unique=True,
            sqlite_where=sa.text("end_s IS NULL"),
            postgresql_where=sa.text("end_s IS NULL"),
        )
