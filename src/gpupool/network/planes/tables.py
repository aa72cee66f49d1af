"""Tables of planes."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants

plane_inventory = sa.Table(
    "plane_inventory",
    metadata,
    # One row, or none.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("content", sa.JSON, nullable=False, comment="wire.network.planes.PlaneInventory"),
    sa.Column("loaded_ns", sa.BigInteger, nullable=False),
)

plane_demands = sa.Table(
    "plane_demands",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("plane", sa.String(16), nullable=False),
    sa.Column("vlan", sa.Integer, nullable=True, unique=True),
    sa.Column("vni", sa.Integer, nullable=True, unique=True),
    sa.Column("pkey", sa.Integer, nullable=True, unique=True),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "plane"),
)

plane_nodes = sa.Table(
    "plane_nodes",
    metadata,
    # Nodes that one tenant alone gets.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("node", sa.String(63), nullable=False, unique=True, comment="name of a node"),
)

plane_evidence = sa.Table(
    "plane_evidence",
    metadata,
    # The last report of each target.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("target", sa.String(80), nullable=False, unique=True),
    sa.Column("source", sa.String(8), nullable=False, comment="hash or text"),
    sa.Column("hash", sa.String(64), nullable=False, comment="SHA-256 of the text"),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("reporter", sa.String(63), nullable=False, comment="name of a user"),
    sa.Column("seen_ns", sa.BigInteger, nullable=False),
)
