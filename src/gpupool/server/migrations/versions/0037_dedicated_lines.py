"""Networks have dedicated lines, and the engine the interface of its machine that is for them."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_lines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("vlan", sa.Integer(), nullable=False),
        sa.Column(
            "address", sa.String(18), nullable=False, comment="of the router, with the prefix"
        ),
        sa.Column("speaker", sa.String(15), nullable=False),
        sa.Column("peer", sa.String(15), nullable=False),
        sa.Column("asn", sa.BigInteger(), nullable=False),
        sa.Column("peer_asn", sa.BigInteger(), nullable=False),
        sa.Column("secret_key", sa.String(80), nullable=True, comment="TCP MD5 key; null: none"),
        sa.Column("bfd", sa.Boolean(), nullable=False),
        sa.Column("mtu", sa.Integer(), nullable=False),
        sa.Column("prefix_limit", sa.Integer(), nullable=False),
        sa.Column(
            "allowed", sa.JSON(), nullable=False, comment="prefixes that the peer may announce"
        ),
        sa.Column(
            "announced", sa.JSON(), nullable=True, comment="null: every subnet of the network"
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False, comment="off, starting, up, down"),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("learned", sa.JSON(), nullable=False),
        sa.Column(
            "refused",
            sa.JSON(),
            nullable=False,
            comment="prefixes with reasons, the first ones",
        ),
        sa.Column("refused_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_lines_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_lines")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_lines_public_id")),
        sa.UniqueConstraint("vlan", name=op.f("uq_network_lines_vlan")),
    )
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("network_engine", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "line_interface",
                sa.String(15),
                nullable=False,
                server_default="",
                comment="interface of the machine for dedicated lines; empty: none",
            )
        )
        batch_op.add_column(
            sa.Column(
                "line_vlans",
                sa.String(9),
                nullable=False,
                server_default="",
                comment="VLANs for dedicated lines, as 200-299; empty: none",
            )
        )
        # Copied as they stand, SQLite would keep the defaults as ('').
        for name, length in (("uplink", 18), ("forward_ports", 11)):
            batch_op.alter_column(
                name, existing_type=sa.String(length), server_default="", existing_nullable=False
            )
