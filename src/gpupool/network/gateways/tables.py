"""Tables of the pair of gateways, of its machines, and of drills."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

network_gateway_pair = sa.Table(
    "network_gateway_pair",
    metadata,
    # One row where gateways are on a pair of machines; none where the centre has them.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("address", sa.String(15), nullable=False, comment="outside, of the active machine"),
    sa.Column(
        "upstream", sa.String(15), nullable=True, comment="that each machine watches; null: none"
    ),
    sa.Column("active", sa.String(63), nullable=False, comment="agent; empty: not known yet"),
    sa.Column("moved_from", sa.String(63), nullable=False, comment="agent that was active before"),
    sa.Column("moved_ns", sa.BigInteger, nullable=True, comment="when the active one became it"),
    sa.Column("move_reason", sa.String(200), nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)

network_gateways = sa.Table(
    "network_gateways",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(63), nullable=False, unique=True),
    sa.Column("position", sa.Integer, nullable=False, comment="0: preferred at first; 1"),
    sa.Column("is_drained", sa.Boolean, nullable=False, comment="an admin keeps it away"),
    sa.Column("state", sa.String(16), nullable=False, comment="starting, active, standby, away"),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("since_ns", sa.BigInteger, nullable=True, comment="when it came into that state"),
    sa.Column(
        "balancers",
        sa.Integer,
        nullable=False,
        server_default="0",
        comment="load balancers of HTTP that answer there",
    ),
)

network_gateway_drills = sa.Table(
    "network_gateway_drills",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("port", sa.String(16), nullable=False, comment="from which it probes"),
    sa.Column("origin", sa.String(63), nullable=False, comment="agent that was active before"),
    sa.Column("state", sa.String(8), nullable=False, comment="running, done or failed"),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("moves", sa.JSON, nullable=False, comment="what it measured"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("finished_ns", sa.BigInteger, nullable=True),
)
