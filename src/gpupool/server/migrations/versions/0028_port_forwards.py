"""Networks have port forwards, and the engine the ports of its machine that are for them."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "port_forwards",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("protocol", sa.String(8), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False, comment="on the machine of the pool"),
        sa.Column("target", sa.String(127), nullable=False, comment="DNS name in the network"),
        sa.Column("target_port", sa.Integer(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_port_forwards_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_port_forwards")),
        sa.UniqueConstraint("public_id", name=op.f("uq_port_forwards_public_id")),
        sa.UniqueConstraint("protocol", "port", name=op.f("uq_port_forwards_protocol_port")),
    )
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("network_engine", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(
            sa.Column(
                "forward_ports",
                sa.String(11),
                nullable=False,
                server_default="",
                comment="ports of the machine for tenants, as 30000-30099; empty: none",
            )
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "uplink", existing_type=sa.String(18), server_default="", existing_nullable=False
        )
