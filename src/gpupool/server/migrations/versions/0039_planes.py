"""Tenants demand planes of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "plane_inventory",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column(
            "content", sa.JSON(), nullable=False, comment="wire.network.planes.PlaneInventory"
        ),
        sa.Column("loaded_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plane_inventory")),
    )
    op.create_table(
        "plane_demands",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("plane", sa.String(16), nullable=False),
        sa.Column("vlan", sa.Integer(), nullable=True),
        sa.Column("vni", sa.Integer(), nullable=True),
        sa.Column("pkey", sa.Integer(), nullable=True),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_plane_demands_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plane_demands")),
        sa.UniqueConstraint("vlan", name=op.f("uq_plane_demands_vlan")),
        sa.UniqueConstraint("vni", name=op.f("uq_plane_demands_vni")),
        sa.UniqueConstraint("pkey", name=op.f("uq_plane_demands_pkey")),
        sa.UniqueConstraint("tenant_id", "plane", name=op.f("uq_plane_demands_tenant_id_plane")),
    )
    op.create_table(
        "plane_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(63), nullable=False, comment="name of a node"),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_plane_nodes_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plane_nodes")),
        sa.UniqueConstraint("node", name=op.f("uq_plane_nodes_node")),
    )
    op.create_table(
        "plane_evidence",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target", sa.String(80), nullable=False),
        sa.Column("source", sa.String(8), nullable=False, comment="hash or text"),
        sa.Column("hash", sa.String(64), nullable=False, comment="SHA-256 of the text"),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("reporter", sa.String(63), nullable=False, comment="name of a user"),
        sa.Column("seen_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plane_evidence")),
        sa.UniqueConstraint("target", name=op.f("uq_plane_evidence_target")),
    )
