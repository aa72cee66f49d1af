"""The table of exposures."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.balancing.tables import load_balancers
from gpupool.network.forwarding.tables import port_forwards
from gpupool.store.tables import metadata

exposures = sa.Table(
    "exposures",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("job", sa.String(16), nullable=False, comment="its id"),
    sa.Column("port", sa.Integer, nullable=False, comment="on which the job serves"),
    sa.Column("host", sa.String(253), nullable=True, comment="of HTTP; null: any"),
    sa.Column(
        "balancer_id",
        sa.ForeignKey(load_balancers.c.id, ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column(
        "forward_id",
        sa.ForeignKey(port_forwards.c.id, ondelete="SET NULL"),
        nullable=True,
    ),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("job", "port"),
)
