"""The table of verifications."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants

network_verifications = sa.Table(
    "network_verifications",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=True, comment="null: all"),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=True, comment="null: all"),
    sa.Column("cidr", sa.String(18), nullable=False, comment="of the networks made for it"),
    sa.Column("ports", sa.JSON, nullable=False, comment="ids of the ports made for it"),
    sa.Column("state", sa.String(8), nullable=False, comment="running, done or failed"),
    sa.Column("checks", sa.JSON, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("finished_ns", sa.BigInteger, nullable=True),
    sa.Column("cidr6", sa.String(43), nullable=True, comment="null: they have no IPv6"),
)
