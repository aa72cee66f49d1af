"""Networks have static routes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_routes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column(
            "subnet_id",
            sa.Integer(),
            nullable=True,
            comment="whose packets it is for; null: those of every subnet",
        ),
        sa.Column("prefix", sa.String(18), nullable=False),
        sa.Column("via", sa.String(15), nullable=True, comment="null: packets are discarded"),
        sa.Column(
            "forwards",
            sa.JSON(),
            nullable=False,
            comment="prefixes of others that the next hop sends",
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_routes_network_id")
        ),
        sa.ForeignKeyConstraint(
            ["subnet_id"], ["subnets.id"], name=op.f("fk_network_routes_subnet_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_routes")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_routes_public_id")),
    )
    op.create_index(
        op.f("ix_network_routes_network_id"), "network_routes", ["network_id"], unique=False
    )
