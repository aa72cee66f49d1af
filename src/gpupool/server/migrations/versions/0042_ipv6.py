"""Subnets have an IPv6 prefix, and ports and claims an IPv6 address."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("subnets", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column("cidr6", sa.String(43), nullable=True, comment="null: no IPv6")
        )
    with op.batch_alter_table("network_ports", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "address6", sa.String(39), nullable=True, comment="null: its subnet has no IPv6"
            )
        )
        batch_op.create_unique_constraint(
            op.f("uq_network_ports_subnet_id_address6"), ["subnet_id", "address6"]
        )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "network_address6",
                sa.String(39),
                nullable=True,
                comment="IPv6 address that its job asked for; null: any",
            )
        )
    with op.batch_alter_table("network_verifications", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column("cidr6", sa.String(43), nullable=True, comment="null: they have no IPv6")
        )
    with op.batch_alter_table("dns_records", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "address", existing_type=sa.String(15), type_=sa.String(39), existing_nullable=False
        )
    with op.batch_alter_table("security_rules", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "prefix",
            existing_type=sa.String(18),
            type_=sa.String(43),
            existing_nullable=True,
            existing_comment="of the source",
        )
