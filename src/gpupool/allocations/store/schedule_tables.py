"""The tables of schedules: what is submitted again and again, and what became of each instant."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import metadata
from gpupool.tenancy.tables import tenants, users

_ACTIVE = sa.text("state = 'active'")

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False, comment="its jobs are of"),
    sa.Column("name", sa.String(63), nullable=False),
    sa.Column("cron", sa.String(100), nullable=False),
    sa.Column("time_zone", sa.String(64), nullable=False),
    sa.Column("overlap", sa.String(8), nullable=False, comment="skip, queue, replace"),
    sa.Column("deadline_s", sa.Integer, nullable=False, comment="later than that: missed"),
    # With the environment of the command, as it was at submission: it may hold secrets.
    sa.Column("body", sa.JSON, nullable=False, comment="see wire.submissions.JobIn"),
    sa.Column("run_as", sa.JSON, nullable=True, comment="local user that starts the command"),
    sa.Column("state", sa.String(8), nullable=False, comment="active, paused"),
    sa.Column("reason", sa.String(400), nullable=False, comment="why it is paused"),
    sa.Column("next_ns", sa.BigInteger, nullable=False, comment="the next instant"),
    sa.Column("last_job", sa.String(80), nullable=True, comment="job or array of the last run"),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "name"),
    sa.Index("ix_schedules_due", "next_ns", sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
)

schedule_runs = sa.Table(
    "schedule_runs",
    metadata,
    # One row per instant: the key by which two servers or a restart submit once.
    sa.Column("schedule_id", sa.ForeignKey(schedules.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("due_ns", sa.BigInteger, primary_key=True),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column(
        "outcome", sa.String(16), nullable=False, comment="submitted, skipped, missed, refused"
    ),
    sa.Column("job", sa.String(80), nullable=True),
    sa.Column("text", sa.String(400), nullable=False, server_default=""),
)
