"""Table of the mirrors of networks."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import network_ports, networks
from gpupool.store.tables import metadata

network_mirrors = sa.Table(
    "network_mirrors",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("name", sa.String(15), nullable=False, comment="also of the interface in the target"),
    # It ends with the first of the two jobs.
    sa.Column("source_id", sa.ForeignKey(network_ports.c.id), nullable=False, index=True),
    sa.Column("target_id", sa.ForeignKey(network_ports.c.id), nullable=False, index=True),
    sa.Column("direction", sa.String(8), nullable=False, comment="both, in or out"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "name"),
)
