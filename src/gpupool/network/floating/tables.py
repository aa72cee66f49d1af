"""Tables of floating IPs, and of the prefix that an admin opens for them."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import metadata

floating_ips = sa.Table(
    "floating_ips",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False, index=True),
    # The last guard against one address given twice; the first is `choices`.
    sa.Column("address", sa.String(39), nullable=False, unique=True, comment="outside"),
    sa.Column(
        "inner_number",
        sa.Integer,
        nullable=False,
        index=True,
        unique=True,
        comment="of its address on the uplink",
    ),
    sa.Column("target", sa.String(127), nullable=False, comment="a job's DNS name or address"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    # What the agent's probe saw last.
    sa.Column("state", sa.String(16), nullable=False, comment="what a probe saw last"),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("probed_ns", sa.BigInteger, nullable=True, comment="since when it is so"),
)

floating_prefix = sa.Table(
    "floating_prefix",
    metadata,
    # One row where an admin has opened one; it outlives an engine that is disabled.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("prefix", sa.String(43), nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)
