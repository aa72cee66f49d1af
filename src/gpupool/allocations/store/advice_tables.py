"""Tables of advice policies: the policies, what they changed of claims and runs, families left alone."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import projects, tenants, users

advice_policies = sa.Table(
    "advice_policies",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=True, comment="null: any"),
    sa.Column("project_id", sa.ForeignKey(projects.c.id), nullable=True, comment="null: any"),
    sa.Column("families", sa.String(80), nullable=True, comment="of names, with *; null: any"),
    sa.Column("by_tenant", sa.Boolean, nullable=False, comment="it only tightens"),
    sa.Column("mode", sa.String(8), nullable=False, comment="off, propose or apply"),
    sa.Column("target", sa.String(8), nullable=False, comment="new, running or both"),
    sa.Column("least_milli", sa.Integer, nullable=False),
    sa.Column("most_cut_percent", sa.Integer, nullable=False),
    sa.Column("least_bytes", sa.BigInteger, nullable=False),
    sa.Column("confidence", sa.String(8), nullable=False, comment="the least that is trusted"),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("changed_by", sa.String(63), nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
)

advice_claims = sa.Table(
    "advice_claims",
    metadata,
    # One row for each claim that a policy changed at its submission, or that refuses it.
    sa.Column("claim_id", BigId, sa.ForeignKey("claims.id"), primary_key=True, autoincrement=False),
    sa.Column("policy", sa.String(16), nullable=False, comment="public id; empty: none"),
    sa.Column("state", sa.String(8), nullable=False, comment="applied, proposed or exact"),
    sa.Column("asked_milli", sa.Integer, nullable=False, comment="of a card"),
    sa.Column(
        "asked_bytes", sa.BigInteger, nullable=True, comment="of a card; null: in proportion"
    ),
    sa.Column("gpu_milli", sa.Integer, nullable=False, comment="given, or proposed"),
    sa.Column("memory_bytes", sa.BigInteger, nullable=True),
)

advice_runs = sa.Table(
    "advice_runs",
    metadata,
    # One row for each job that a policy changed while it ran, that got back what it asked for, or
    # for which it proposes a share.
    sa.Column("job_id", BigId, sa.ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    sa.Column("allocation_id", BigId, nullable=False, comment="a later one begins as it was asked"),
    sa.Column("policy", sa.String(16), nullable=False),
    sa.Column(
        "state",
        sa.String(8),
        nullable=False,
        comment="applied, waits or returned; proposed or lapsed",
    ),
    sa.Column("asked_milli", sa.Integer, nullable=False, comment="of a card"),
    sa.Column("asked_bytes", sa.BigInteger, nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False, comment="given"),
    sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    sa.Column("measured_ms", sa.BigInteger, nullable=False, comment="of its use before the change"),
    sa.Column("limited_ms", sa.BigInteger, nullable=False, comment="of it at its limit"),
    sa.Column("at_ns", sa.BigInteger, nullable=False, comment="of the latest change"),
)

advice_pauses = sa.Table(
    "advice_pauses",
    metadata,
    # One row for each family that is left alone because a share of it was too small.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False),
    sa.Column("project_id", sa.ForeignKey(projects.c.id), nullable=False),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=False),
    sa.Column("pattern", sa.String(80), nullable=False),
    sa.Column("job", sa.String(16), nullable=False, comment="whose share was too small"),
    sa.Column("until_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant_id", "project_id", "user_id", "pattern"),
)
