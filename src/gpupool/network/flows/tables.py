"""Tables of flow logs, of their records, and of the last report of each agent."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.network.tables import networks
from gpupool.store.tables import BigId, metadata

flow_logs = sa.Table(
    "flow_logs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("network_id", sa.ForeignKey(networks.c.id), nullable=False),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("choice", sa.String(8), nullable=False, comment="all, allowed or denied"),
    sa.Column(
        "job", sa.String(127), nullable=True, comment="DNS name in the network; null: every job"
    ),
    sa.Column("expired_records", sa.BigInteger, nullable=False, comment="deleted for newer ones"),
    sa.Column(
        "skipped_packets", sa.BigInteger, nullable=False, comment="of its network, above the rate"
    ),
    sa.Column("lost_bytes", sa.BigInteger, nullable=False, comment="of the log, never read"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("network_id", "name"),
)

flow_records = sa.Table(
    "flow_records",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("flow_log_id", sa.ForeignKey(flow_logs.c.id), nullable=False, index=True),
    sa.Column("at_ns", sa.BigInteger, nullable=False, comment="of its first packet"),
    sa.Column("verdict", sa.String(8), nullable=False),
    sa.Column("group", sa.String(63), nullable=True, comment="null: the job was in none"),
    sa.Column("rule", sa.String(16), nullable=False),
    sa.Column("protocol", sa.String(8), nullable=False),
    sa.Column("source", sa.String(45), nullable=False),
    sa.Column("source_port", sa.Integer, nullable=True),
    sa.Column("source_job", sa.String(127), nullable=True),
    sa.Column("target", sa.String(45), nullable=False),
    sa.Column("target_port", sa.Integer, nullable=True),
    sa.Column("target_job", sa.String(127), nullable=True),
    sa.Column("packets", sa.BigInteger, nullable=False, comment="that were logged"),
    # Numbers of records never come back: a reader goes on behind the last one.
    sqlite_autoincrement=True,
)

flow_reports = sa.Table(
    "flow_reports",
    metadata,
    # A report that is posted twice counts once.
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(63), nullable=False, unique=True),
    sa.Column("run", sa.String(16), nullable=False, comment="of the agent"),
    sa.Column("number", sa.BigInteger, nullable=False, comment="of its last report"),
)
