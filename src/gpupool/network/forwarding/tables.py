"""The table of port forwards."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

port_forwards = sa.Table(
    "port_forwards",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("protocol", sa.String(8), nullable=False),
    sa.Column("port", sa.Integer, nullable=False, comment="on the machine of the pool"),
    sa.Column("target", sa.String(127), nullable=False, comment="DNS name in the network"),
    sa.Column("target_port", sa.Integer, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("protocol", "port"),
)
