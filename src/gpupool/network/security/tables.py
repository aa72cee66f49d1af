"""Tables of security groups, their rules, and the ports that are in them."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import network_ports, networks
from gpupool.store.tables import metadata

security_groups = sa.Table(
    "security_groups",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "name"),
)

security_rules = sa.Table(
    "security_rules",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("group_id", sa.ForeignKey(security_groups.c.id), nullable=False, index=True),
    sa.Column("protocol", sa.String(8), nullable=False),
    sa.Column("first_port", sa.Integer, nullable=True, comment="null: every port"),
    sa.Column("last_port", sa.Integer, nullable=True),
    sa.Column("prefix", sa.String(43), nullable=True, comment="of the source"),
    sa.Column(
        "source_id",
        sa.ForeignKey(security_groups.c.id),
        nullable=True,
        comment="the source where there is no prefix; both null: every address",
    ),
)

port_groups = sa.Table(
    "network_port_groups",
    metadata,
    sa.Column("port_id", sa.ForeignKey(network_ports.c.id), primary_key=True),
    sa.Column("group_id", sa.ForeignKey(security_groups.c.id), primary_key=True, index=True),
)
