"""Tables of bandwidth limits, of what admins allow, and of what the switch was read to have."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants

bandwidth_limits = sa.Table(
    "bandwidth_limits",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("subject", sa.String(8), nullable=False, comment="port or gateway"),
    sa.Column(
        "target", sa.String(127), nullable=False, comment="DNS name in the network; empty: all"
    ),
    sa.Column("in_kbit", sa.Integer, nullable=True, comment="kbit/s; null: none"),
    sa.Column("out_kbit", sa.Integer, nullable=True),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "subject", "target"),
)

bandwidth_caps = sa.Table(
    "bandwidth_caps",
    metadata,
    # What an admin lets the ports and gateways of a tenant have at most.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("subject", sa.String(8), nullable=False, comment="port or gateway"),
    sa.Column("in_kbit", sa.Integer, nullable=True, comment="kbit/s; null: none"),
    sa.Column("out_kbit", sa.Integer, nullable=True),
    sa.UniqueConstraint("tenant_id", "subject"),
)

bandwidth_readings = sa.Table(
    "bandwidth_readings",
    metadata,
    # Replaced with each report of the agent; a measurement holds for the limit that it was made at.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column(
        "key", sa.String(16), nullable=False, unique=True, comment="id of a port or of a network"
    ),
    sa.Column("in_kbit", sa.Integer, nullable=True, comment="in force; null: none"),
    sa.Column("out_kbit", sa.Integer, nullable=True),
    sa.Column("in_reason", sa.String(200), nullable=False, comment="why it is not as wanted"),
    sa.Column("out_reason", sa.String(200), nullable=False),
    sa.Column("in_measured_kbit", sa.Integer, nullable=True),
    sa.Column("in_measured_at", sa.Integer, nullable=True, comment="the limit then, in kbit/s"),
    sa.Column("out_measured_kbit", sa.Integer, nullable=True),
    sa.Column("out_measured_at", sa.Integer, nullable=True),
)
