"""Idle policies, the ladder of each job, keeps, and what was given back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "idle_policies",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("project_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("kind", sa.String(16), nullable=True, comment="of jobs; null: any"),
        sa.Column("by_tenant", sa.Boolean(), nullable=False, comment="it only tightens"),
        sa.Column("mode", sa.String(8), nullable=False, comment="on or dry-run"),
        sa.Column("window_seconds", sa.Integer(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False, comment="[act, seconds, milli-devices] each"),
        sa.Column("keep_seconds", sa.Integer(), nullable=False),
        sa.Column("keeps_per_day", sa.Integer(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(63), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_idle_policies_tenant_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_idle_policies_project_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idle_policies")),
        sa.UniqueConstraint("public_id", name=op.f("uq_idle_policies_public_id")),
    )
    op.create_table(
        "idle_states",
        sa.Column("job_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column(
            "since_ns", sa.BigInteger(), nullable=False, comment="its last activity at the step"
        ),
        sa.Column(
            "counters", sa.String(64), nullable=False, comment="digest of its fence's counters"
        ),
        sa.Column("act", sa.String(8), nullable=True, comment="the last step; null: none"),
        sa.Column("at_ns", sa.BigInteger(), nullable=False, comment="when it was taken"),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column(
            "skip", sa.String(400), nullable=False, comment="why it could not be; empty: it was"
        ),
        sa.Column(
            "milli_before", sa.Integer(), nullable=True, comment="of a seat before it shrank"
        ),
        sa.Column("milli_after", sa.Integer(), nullable=True),
        sa.Column(
            "wait_ns", sa.BigInteger(), nullable=True, comment="since when it waits to grow back"
        ),
        sa.Column("keep_until_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_idle_states_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_idle_states")),
    )
    op.create_table(
        "idle_keeps",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("job_id", _BIG_ID, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_idle_keeps_job_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_idle_keeps_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idle_keeps")),
    )
    op.create_index("ix_idle_keeps_job_id_at_ns", "idle_keeps", ["job_id", "at_ns"])
    op.create_table(
        "idle_spans",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("job_id", _BIG_ID, nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("act", sa.String(8), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column(
            "gpu_milli", sa.BigInteger(), nullable=False, comment="given back, of all its cards"
        ),
        sa.Column("model", sa.String(63), nullable=False, comment="of its cards"),
        sa.Column("sharing", sa.String(16), nullable=False),
        sa.Column("preemptible", sa.Boolean(), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=True, comment="null: it goes on"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_idle_spans_job_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_idle_spans_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idle_spans")),
    )
    op.create_index(op.f("ix_idle_spans_job_id"), "idle_spans", ["job_id"])
    op.create_index(op.f("ix_idle_spans_start_ns"), "idle_spans", ["start_ns"])
