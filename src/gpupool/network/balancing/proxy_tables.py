"""The table of load balancers of HTTP: what they have beside a row of `load_balancers`."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.balancing.tables import load_balancers
from gpupool.network.tables import subnets
from gpupool.store.tables import metadata

http_balancers = sa.Table(
    "http_balancers",
    metadata,
    sa.Column(
        "balancer_id", sa.ForeignKey(load_balancers.c.id), primary_key=True, autoincrement=False
    ),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True, comment="of its proxy"),
    sa.Column("subnet_id", sa.ForeignKey(subnets.c.id), nullable=False),
    sa.Column("address", sa.String(15), nullable=False, comment="of its proxy"),
    sa.Column("https_port", sa.Integer, nullable=True, comment="null: no certificate"),
    sa.Column("routes", sa.JSON, nullable=False, comment="host, path, backends, target_port"),
    sa.Column("redirects", sa.Boolean, nullable=False),
    sa.Column("is_sticky", sa.Boolean, nullable=False),
    sa.Column("check_path", sa.String(255), nullable=True),
    sa.Column("drain_seconds", sa.Integer, nullable=False),
    sa.Column("draining", sa.JSON, nullable=False, comment="DNS names of jobs"),
    sa.Column("certificate", sa.Text, nullable=True, comment="chain and private key, PEM"),
    sa.Column("certificate_end_ns", sa.BigInteger, nullable=True),
    sa.Column(
        "standby_id",
        sa.String(16),
        nullable=True,
        comment="of the proxy on the second machine of a pair; null: none",
    ),
    sa.Column("standby_address", sa.String(15), nullable=True),
    sa.UniqueConstraint("subnet_id", "address"),
)
