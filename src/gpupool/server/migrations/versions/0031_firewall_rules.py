"""The boundary of the pool has a firewall."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "firewall_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="the lowest decides"),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("direction", sa.String(8), nullable=False),
        sa.Column("prefix", sa.String(18), nullable=False, comment="of what lies outside"),
        sa.Column("protocol", sa.String(8), nullable=False),
        sa.Column("first_port", sa.Integer(), nullable=True),
        sa.Column("last_port", sa.Integer(), nullable=True),
        sa.Column("network_id", sa.Integer(), nullable=True, comment="null: of every network"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_firewall_rules_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_firewall_rules")),
        sa.UniqueConstraint("public_id", name=op.f("uq_firewall_rules_public_id")),
        sa.UniqueConstraint("number", name=op.f("uq_firewall_rules_number")),
    )
