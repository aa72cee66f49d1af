"""The table of the boundary's rules."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

firewall_rules = sa.Table(
    "firewall_rules",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("number", sa.Integer, nullable=False, unique=True, comment="the lowest decides"),
    sa.Column("action", sa.String(8), nullable=False),
    sa.Column("direction", sa.String(8), nullable=False),
    sa.Column("prefix", sa.String(43), nullable=False, comment="of what lies outside"),
    sa.Column("protocol", sa.String(8), nullable=False),
    sa.Column("first_port", sa.Integer, nullable=True),
    sa.Column("last_port", sa.Integer, nullable=True),
    sa.Column(
        "network_id", sa.ForeignKey(networks.c.id), nullable=True, comment="null: of every network"
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)
