"""Advice policies, what they changed of claims and runs, and families left alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0068"
down_revision = "0067"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "advice_policies",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("project_id", sa.Integer(), nullable=True, comment="null: any"),
        sa.Column("families", sa.String(80), nullable=True, comment="of names, with *; null: any"),
        sa.Column("by_tenant", sa.Boolean(), nullable=False, comment="it only tightens"),
        sa.Column("mode", sa.String(8), nullable=False, comment="off, propose or apply"),
        sa.Column("target", sa.String(8), nullable=False, comment="new, running or both"),
        sa.Column("least_milli", sa.Integer(), nullable=False),
        sa.Column("most_cut_percent", sa.Integer(), nullable=False),
        sa.Column("least_bytes", sa.BigInteger(), nullable=False),
        sa.Column("confidence", sa.String(8), nullable=False, comment="the least that is trusted"),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(63), nullable=False),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_advice_policies_tenant_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_advice_policies_project_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_advice_policies")),
        sa.UniqueConstraint("public_id", name=op.f("uq_advice_policies_public_id")),
    )
    op.create_table(
        "advice_claims",
        sa.Column("claim_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("policy", sa.String(16), nullable=False, comment="public id; empty: none"),
        sa.Column("state", sa.String(8), nullable=False, comment="applied, proposed or exact"),
        sa.Column("asked_milli", sa.Integer(), nullable=False, comment="of a card"),
        sa.Column(
            "asked_bytes", sa.BigInteger(), nullable=True, comment="of a card; null: in proportion"
        ),
        sa.Column("gpu_milli", sa.Integer(), nullable=False, comment="given, or proposed"),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["claim_id"], ["claims.id"], name=op.f("fk_advice_claims_claim_id")
        ),
        sa.PrimaryKeyConstraint("claim_id", name=op.f("pk_advice_claims")),
    )
    op.create_table(
        "advice_runs",
        sa.Column("job_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column(
            "allocation_id", _BIG_ID, nullable=False, comment="a later one begins as it was asked"
        ),
        sa.Column("policy", sa.String(16), nullable=False),
        sa.Column("state", sa.String(8), nullable=False, comment="applied, waits or returned"),
        sa.Column("asked_milli", sa.Integer(), nullable=False, comment="of a card"),
        sa.Column("asked_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False, comment="given"),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "measured_ms", sa.BigInteger(), nullable=False, comment="of its use before the change"
        ),
        sa.Column("limited_ms", sa.BigInteger(), nullable=False, comment="of it at its limit"),
        sa.Column("at_ns", sa.BigInteger(), nullable=False, comment="of the latest change"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_advice_runs_job_id")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_advice_runs")),
    )
    op.create_table(
        "advice_pauses",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("pattern", sa.String(80), nullable=False),
        sa.Column("job", sa.String(16), nullable=False, comment="whose share was too small"),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_advice_pauses_tenant_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_advice_pauses_project_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_advice_pauses_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_advice_pauses")),
        sa.UniqueConstraint(
            "tenant_id",
            "project_id",
            "user_id",
            "pattern",
            name=op.f("uq_advice_pauses_tenant_id_project_id_user_id_pattern"),
        ),
    )
