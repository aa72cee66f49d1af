"""Table of the static routes of networks."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks, subnets
from gpupool.store.tables import metadata

network_routes = sa.Table(
    "network_routes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False, index=True),
    sa.Column(
        "subnet_id",
        sa.ForeignKey(subnets.c.id),
        nullable=True,
        comment="whose packets it is for; null: those of every subnet",
    ),
    sa.Column("prefix", sa.String(43), nullable=False),
    sa.Column("via", sa.String(39), nullable=True, comment="null: packets are discarded"),
    sa.Column(
        "forwards", sa.JSON, nullable=False, comment="prefixes of others that the next hop sends"
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)
