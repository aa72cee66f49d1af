"""Tables of services and their replicas."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants, users

services = sa.Table(
    "services",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, comment="its jobs are of"),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("template", sa.String(80), nullable=True, comment="name and version"),
    sa.Column("rule", sa.JSON, nullable=False, comment="see wire.serving.services.ServiceRule"),
    sa.Column("port", sa.Integer, nullable=False, comment="the first replica's"),
    # With the environment of the command, as it was at creation: it may hold secrets.
    sa.Column("body", sa.JSON, nullable=False, comment="see wire.submissions.JobIn"),
    sa.Column("run_as", sa.JSON, nullable=True, comment="local user that starts the command"),
    sa.Column("state", sa.String(8), nullable=False, comment="active, deleting"),
    sa.Column("reason", sa.String(400), nullable=False, comment="why replicas do not start"),
    # A write that adds or ends replicas names the generation that it has read.
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("desired", sa.Integer, nullable=False, comment="replicas"),
    sa.Column("next_number", sa.Integer, nullable=False, comment="of the next replica"),
    sa.Column("failures", sa.Integer, nullable=False, comment="failed starts in a row"),
    sa.Column("retry_ns", sa.BigInteger, nullable=False, comment="no start before"),
    sa.Column("scaled_ns", sa.BigInteger, nullable=True, comment="the latest change of desired"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "name"),
)

service_replicas = sa.Table(
    "service_replicas",
    metadata,
    sa.Column("service_id", sa.ForeignKey(services.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column(
        "state", sa.String(8), nullable=False, comment="wanted, starting, ready, draining, ended"
    ),
    sa.Column("job", sa.String(80), nullable=True, comment="null: it was not submitted"),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("ready_ns", sa.BigInteger, nullable=True, comment="when it was first healthy"),
    sa.Column("drain_ns", sa.BigInteger, nullable=True),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
)
