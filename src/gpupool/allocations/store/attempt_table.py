"""The table of attempts: how the earlier attempts of a job ended."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata

attempts = sa.Table(
    "attempts",
    metadata,
    # Written when an attempt failed and another one follows; the last attempt is the job's own row.
    sa.Column("job_id", sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, comment="from 1 on"),
    sa.Column("state", sa.String(16), nullable=False, comment="failed, lost"),
    sa.Column("reason", sa.String(400), nullable=False),
    sa.Column("exit_code", sa.Integer, nullable=True),
    sa.Column("signal", sa.Integer, nullable=True),
    sa.Column("started_ns", sa.BigInteger, nullable=True),
    sa.Column("ended_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "log_bytes", sa.BigInteger, nullable=True, comment="of the job's log then; null: unknown"
    ),
)
