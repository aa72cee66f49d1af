"""The table of DNS records."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

dns_records = sa.Table(
    "dns_records",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("name", sa.String(253), nullable=False, comment="without the network's domain"),
    sa.Column("address", sa.String(39), nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "name", "address"),
)
