"""The audit log: what people did, each record with the hash of the one before."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_records",
        sa.Column("seq", _big_id(), autoincrement=False, nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("user_name", sa.String(63), nullable=True),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="whose admins see it"),
        sa.Column("action", sa.String(200), nullable=False, comment="method and route"),
        sa.Column("objects", sa.Text(), nullable=False, comment="ids and names, a line each"),
        sa.Column("body", sa.Text(), nullable=False, comment="canonical bytes, which are hashed"),
        sa.Column("previous", sa.String(64), nullable=False, comment="hash of the record before"),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_records")),
    )
    op.create_index(op.f("ix_audit_records_at_ns"), "audit_records", ["at_ns"])
    op.create_index("ix_audit_records_tenant_id_seq", "audit_records", ["tenant_id", "seq"])
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("pool", schema=None, recreate=copied) as batch:
        batch.add_column(
            sa.Column(
                "audit_seq",
                sa.BigInteger(),
                nullable=False,
                server_default="0",
                comment="last number given in the audit log",
            )
        )
        batch.add_column(
            sa.Column(
                "audit_hash",
                sa.String(64),
                nullable=False,
                server_default="0" * 64,
                comment="hash of that record",
            )
        )
        batch.add_column(
            sa.Column(
                "audit_epoch",
                sa.String(16),
                nullable=False,
                server_default="",
                comment="event_epoch in which the audit log was last written at a start",
            )
        )
        # Reflected as DEFAULT (''), which is not what a new pool has.
        batch.alter_column(
            "event_epoch",
            existing_type=sa.String(length=16),
            server_default="",
            existing_nullable=False,
        )


def _big_id() -> sa.types.TypeEngine[int]:
    """Make a 64-bit key that SQLite can number by itself."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
