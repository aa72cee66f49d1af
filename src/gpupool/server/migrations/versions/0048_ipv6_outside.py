"""Gateways carry IPv6 where an admin wants it; rules of the boundary and routes have IPv6 prefixes."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("network_engine", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "gateway_ipv6",
                sa.Boolean(),
                nullable=False,
                server_default=sa.false(),
                comment="whether gateways carry IPv6 too",
            )
        )
        # Copied as they stand, SQLite would keep the defaults as ('').
        for name, length in (
            ("uplink", 18),
            ("forward_ports", 11),
            ("line_interface", 15),
            ("line_vlans", 9),
        ):
            batch_op.alter_column(
                name, existing_type=sa.String(length), server_default="", existing_nullable=False
            )
    with op.batch_alter_table("firewall_rules", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "prefix",
            existing_type=sa.String(18),
            type_=sa.String(43),
            existing_nullable=False,
            existing_comment="of what lies outside",
        )
    with op.batch_alter_table("network_routes", schema=None, recreate=copied) as batch_op:
        batch_op.alter_column(
            "prefix", existing_type=sa.String(18), type_=sa.String(43), existing_nullable=False
        )
        batch_op.alter_column(
            "via",
            existing_type=sa.String(15),
            type_=sa.String(39),
            existing_nullable=True,
            existing_comment="null: packets are discarded",
        )
