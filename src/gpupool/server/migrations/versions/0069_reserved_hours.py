"""Price lists price reserved time that no job used, and each hour of it is recorded."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0069"
down_revision = "0068"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("price_lists", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "reserved_milli",
                sa.Integer(),
                nullable=False,
                server_default="0",
                comment="thousandths of the price that reserved, unused cards cost",
            )
        )
    with op.batch_alter_table("reservations", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "ended_ns",
                sa.BigInteger(),
                nullable=True,
                comment="when it was deleted; null: not, or before this was recorded",
            )
        )
    op.create_table(
        "reserved_hours",
        sa.Column("hour_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reservation_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("model", sa.String(63), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("used_micro_seconds", sa.BigInteger(), nullable=False),
        sa.Column("unused_micro_seconds", sa.BigInteger(), nullable=False),
        sa.Column(
            "missing_micro_seconds",
            sa.BigInteger(),
            nullable=False,
            comment="cards were late or gone",
        ),
        sa.Column("card_milliseconds", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib_seconds", sa.BigInteger(), nullable=False),
        sa.Column("dominant_micro_seconds", sa.BigInteger(), nullable=False),
        sa.Column("charged_micro_seconds", sa.BigInteger(), nullable=False),
        sa.Column(
            "base_micro",
            sa.BigInteger(),
            nullable=True,
            comment="price of the card; null: it has none",
        ),
        sa.Column("factor_milli", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(
            "hour_s", "reservation_id", "model", name=op.f("pk_reserved_hours")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_reserved_hours_tenant_id_hour_s", "reserved_hours", ["tenant_id", "hour_s"])
