"""Tables of idle policies, of each job's ladder, of keeps, and of what was given back."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import projects, tenants, users

idle_policies = sa.Table(
    "idle_policies",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=True, comment="null: any"),
    sa.Column("project_id", sa.ForeignKey(projects.c.id), nullable=True, comment="null: any"),
    sa.Column("kind", sa.String(16), nullable=True, comment="of jobs; null: any"),
    sa.Column("by_tenant", sa.Boolean, nullable=False, comment="it only tightens"),
    sa.Column("mode", sa.String(8), nullable=False, comment="on or dry-run"),
    sa.Column("window_seconds", sa.Integer, nullable=False),
    sa.Column("steps", sa.JSON, nullable=False, comment="[act, seconds, milli-devices] each"),
    sa.Column("keep_seconds", sa.Integer, nullable=False),
    sa.Column("keeps_per_day", sa.Integer, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("changed_by", sa.String(63), nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
)

idle_states = sa.Table(
    "idle_states",
    metadata,
    # One row for each live job that was idle once, or was kept. A step is written with its event.
    sa.Column("job_id", BigId, sa.ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    sa.Column("since_ns", sa.BigInteger, nullable=False, comment="its last activity at the step"),
    sa.Column("counters", sa.String(64), nullable=False, comment="digest of its fence's counters"),
    sa.Column("act", sa.String(8), nullable=True, comment="the last step; null: none"),
    sa.Column("at_ns", sa.BigInteger, nullable=False, comment="when it was taken"),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("skip", sa.String(400), nullable=False, comment="why it could not be; empty: it was"),
    sa.Column("milli_before", sa.Integer, nullable=True, comment="of a seat before it shrank"),
    sa.Column("milli_after", sa.Integer, nullable=True),
    sa.Column("wait_ns", sa.BigInteger, nullable=True, comment="since when it waits to grow back"),
    sa.Column("keep_until_ns", sa.BigInteger, nullable=True),
)

idle_keeps = sa.Table(
    "idle_keeps",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("job_id", BigId, sa.ForeignKey("jobs.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("until_ns", sa.BigInteger, nullable=False),
    sa.Index("ix_idle_keeps_job_id_at_ns", "job_id", "at_ns"),
)

idle_spans = sa.Table(
    "idle_spans",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("job_id", BigId, sa.ForeignKey("jobs.id"), nullable=False, index=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("act", sa.String(8), nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False),
    sa.Column("gpu_milli", sa.BigInteger, nullable=False, comment="given back, of all its cards"),
    sa.Column("model", sa.String(63), nullable=False, comment="of its cards"),
    sa.Column("sharing", sa.String(16), nullable=False),
    sa.Column("preemptible", sa.Boolean, nullable=False),
    sa.Column("start_ns", sa.BigInteger, nullable=False, index=True),
    sa.Column("end_ns", sa.BigInteger, nullable=True, comment="null: it goes on"),
)
