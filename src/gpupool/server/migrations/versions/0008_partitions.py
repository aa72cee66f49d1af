"""Partitions: claims name a profile, seats a piece of a card, and a card says what is cut of it."""

from __future__ import annotations

from typing import Any, Literal

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table, schema=None, recreate=copied) as batch_op:
            for column in columns:
                batch_op.add_column(column)
            if table == "devices":  # copied as it stands, SQLite would keep the default as ('')
                batch_op.alter_column(
                    "health_reason",
                    existing_type=sa.String(200),
                    server_default="",
                    existing_nullable=False,
                )
    op.drop_table("partitions")  # nothing ever wrote it: what is cut stands in the card's own row


_COLUMNS: dict[str, list[sa.Column[Any]]] = {
    "claims": [
        sa.Column(
            "profile",
            sa.String(63),
            nullable=True,
            comment="a partition of it on each card; null: a share",
        )
    ],
    "seats": [
        sa.Column(
            "profile",
            sa.String(63),
            nullable=True,
            comment="of a partition, as its start and size in units",
        ),
        sa.Column("start", sa.Integer(), nullable=True),
        sa.Column("size", sa.Integer(), nullable=True),
    ],
    "devices": [
        sa.Column(
            "pieces",
            sa.JSON(),
            nullable=True,
            comment="partitions now: [start, size, profile] each",
        ),
    ],
}
