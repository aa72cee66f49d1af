"""Tables of budgets and of the thresholds that they reached."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import BigId, metadata
from gpupool.tenancy.tables import projects, tenants, users

budgets = sa.Table(
    "budgets",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("public_id", sa.String(16), nullable=False, unique=True),
    sa.Column("tenant_id", sa.ForeignKey(tenants.c.id), nullable=False, index=True),
    sa.Column("project_id", sa.ForeignKey(projects.c.id), nullable=True, comment="null: any"),
    sa.Column("user_id", sa.ForeignKey(users.c.id), nullable=True, comment="null: any"),
    sa.Column("period", sa.String(16), nullable=False, comment="month or quarter"),
    sa.Column("timezone", sa.String(63), nullable=False),
    sa.Column("unit", sa.String(16), nullable=False, comment="money or gpu-hours"),
    sa.Column("amount", sa.BigInteger, nullable=False, comment="micro-units, or card-milliseconds"),
    sa.Column("warn_percents", sa.JSON, nullable=False),
    sa.Column("hold_percent", sa.Integer, nullable=False),
    sa.Column("preempt_percent", sa.Integer, nullable=False),
    sa.Column("grace_seconds", sa.Integer, nullable=False),
    sa.Column("on_limit", sa.String(16), nullable=False, comment="warn, hold or preempt"),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
)

budget_crossings = sa.Table(
    "budget_crossings",
    metadata,
    # One row for each threshold that was reached in a period: its event is written with it.
    sa.Column("budget_id", sa.ForeignKey(budgets.c.id, ondelete="CASCADE"), primary_key=True),
    sa.Column("period_start_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("percent", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("spent", sa.BigInteger, nullable=False, comment="in the unit of the budget"),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
)
