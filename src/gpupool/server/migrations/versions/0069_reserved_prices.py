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
    _create_reserved_hours()
    op.create_table(
        "month_documents",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False, comment="empty: the whole pool"),
        sa.Column("form", sa.String(8), nullable=False, comment="xlsx, pdf or focus"),
        sa.Column("language", sa.String(2), nullable=False, comment="empty: it has no words"),
        sa.Column("sha256", sa.String(64), nullable=False, comment="of the document"),
        sa.Column("packed", sa.LargeBinary(), nullable=False, comment="the document, by zlib"),
        sa.Column("made_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["month"], ["month_seals.month"], name=op.f("fk_month_documents_month")
        ),
        sa.PrimaryKeyConstraint(
            "month", "tenant", "form", "language", name=op.f("pk_month_documents")
        ),
    )


def _create_reserved_hours() -> None:
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
