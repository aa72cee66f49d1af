"""The table of load balancers."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

load_balancers = sa.Table(
    "load_balancers",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("protocol", sa.String(8), nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("target_port", sa.Integer, nullable=False),
    sa.Column("backends", sa.JSON, nullable=False, comment="DNS names of jobs"),
    sa.Column("is_checked", sa.Boolean, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "name"),
)
