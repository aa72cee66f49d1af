"""Gateways are on a pair of machines, and drills move them on purpose."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_gateway_pair",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "address", sa.String(15), nullable=False, comment="outside, of the active machine"
        ),
        sa.Column(
            "upstream",
            sa.String(15),
            nullable=True,
            comment="that each machine watches; null: none",
        ),
        sa.Column("active", sa.String(63), nullable=False, comment="agent; empty: not known yet"),
        sa.Column(
            "moved_from", sa.String(63), nullable=False, comment="agent that was active before"
        ),
        sa.Column(
            "moved_ns", sa.BigInteger(), nullable=True, comment="when the active one became it"
        ),
        sa.Column("move_reason", sa.String(200), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_network_gateway_pair_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_gateway_pair")),
    )
    op.create_table(
        "network_gateways",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="0: preferred at first; 1"),
        sa.Column("is_drained", sa.Boolean(), nullable=False, comment="an admin keeps it away"),
        sa.Column(
            "state", sa.String(16), nullable=False, comment="starting, active, standby, away"
        ),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column(
            "since_ns", sa.BigInteger(), nullable=True, comment="when it came into that state"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_gateways")),
        sa.UniqueConstraint("agent", name=op.f("uq_network_gateways_agent")),
    )
    op.create_table(
        "network_gateway_drills",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("network_id", sa.Integer(), nullable=False),
        sa.Column("port", sa.String(16), nullable=False, comment="from which it probes"),
        sa.Column("origin", sa.String(63), nullable=False, comment="agent that was active before"),
        sa.Column("state", sa.String(8), nullable=False, comment="running, done or failed"),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("moves", sa.JSON(), nullable=False, comment="what it measured"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("finished_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_gateway_drills_network_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_gateway_drills")),
        sa.UniqueConstraint("public_id", name=op.f("uq_network_gateway_drills_public_id")),
    )
