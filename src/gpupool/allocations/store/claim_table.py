"""The table of claims: what a submission asks for, for each of its jobs."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import BigId, metadata

claims = sa.Table(
    "claims",
    metadata,
    # One row per submission; the jobs of an array share it.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False),
    sa.Column(
        "memory_bytes", sa.BigInteger, nullable=True, comment="per card; null: in proportion"
    ),
    sa.Column("cards", sa.Integer, nullable=False),
    sa.Column("model", sa.String(63), nullable=True),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column("sharing", sa.String(16), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("max_seconds", sa.BigInteger, nullable=True),
    sa.Column("submitted_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "cpu_milli",
        sa.BigInteger,
        nullable=False,
        server_default="0",
        comment="of the node, for the whole claim",
    ),
    sa.Column(
        "host_bytes",
        sa.BigInteger,
        nullable=False,
        server_default="0",
        comment="main memory of the node",
    ),
    sa.Column(
        "within_required", sa.String(63), nullable=True, comment="level that its cards must share"
    ),
    sa.Column("within_preferred", sa.String(63), nullable=True),
    sa.Column("preemptible", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column(
        "requeue",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="start again when it is lost",
    ),
    sa.Column(
        "reservation",
        sa.String(63),
        nullable=True,
        comment="name of the one whose cards it may use",
    ),
    sa.Column(
        "profile",
        sa.String(63),
        nullable=True,
        comment="a partition of it on each card; null: a share",
    ),
    sa.Column(
        "needs",
        sa.JSON(none_as_null=True),
        nullable=True,
        comment="isolation, goal and host: model.isolation.claim_needs; null: any",
    ),
    sa.Column(
        "network_id",
        sa.ForeignKey(networks.c.id, ondelete="SET NULL"),
        nullable=True,
        comment="that its jobs join; null: none",
    ),
    sa.Column("owner", sa.String(320), nullable=True, comment="that its card serves alone: MPS"),
    sa.Column("names_sharing", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column(
        "security_groups",
        sa.JSON(none_as_null=True),
        nullable=True,
        comment="row ids of those that its jobs are in; null: none",
    ),
    sa.Column(
        "idle_seconds",
        sa.Integer,
        nullable=True,
        comment="it may be suspended when its cards were idle for so long; null: never",
    ),
    sa.Column(
        "network_address",
        sa.String(15),
        nullable=True,
        comment="that its job asked for; null: any",
    ),
    sa.Column(
        "network_mac",
        sa.String(17),
        nullable=True,
        comment="of its port, which a VM keeps; null: made of the port's id",
    ),
    sa.Column(
        "network_address6",
        sa.String(39),
        nullable=True,
        comment="IPv6 address that its job asked for; null: any",
    ),
    sa.Column("retries", sa.Integer, nullable=False, server_default="0"),
    sa.Column(
        "retry_first_s",
        sa.Integer,
        nullable=False,
        server_default="30",
        comment="pause before the first retry, doubled with each",
    ),
    sa.Column("retry_most_s", sa.Integer, nullable=False, server_default="600"),
    sa.Column("image", sa.String(512), nullable=True, comment="container image; null: none"),
)
