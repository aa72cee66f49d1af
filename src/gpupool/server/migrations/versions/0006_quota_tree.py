"""A quota tree: cohorts above tenants, weights, lending, and limits of single models and whole
cells."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "cohorts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True, comment="null: right below the pool"),
        sa.Column("nominal_milli", sa.BigInteger(), nullable=True),
        sa.Column("borrowing_milli", sa.BigInteger(), nullable=True),
        sa.Column("nominal_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("borrowing_memory_bytes", sa.BigInteger(), nullable=True),
        *_branch(),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["cohorts.id"], name=op.f("fk_cohorts_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cohorts")),
        sa.UniqueConstraint("name", name=op.f("uq_cohorts_name")),
    )
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("tenants", schema=None, recreate=copied) as batch_op:
        for column in _branch():
            batch_op.add_column(column)
        batch_op.add_column(
            sa.Column(
                "cohort_id", sa.Integer(), nullable=True, comment="null: right below the pool"
            )
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_tenants_cohort_id"), "cohorts", ["cohort_id"], ["id"]
        )
    _limits()


def _branch() -> list[sa.Column[int]]:
    return [
        sa.Column("weight_milli", sa.BigInteger(), server_default="1000", nullable=False),
        sa.Column("lending_milli", sa.BigInteger(), nullable=True),
        sa.Column("lending_memory_bytes", sa.BigInteger(), nullable=True),
    ]


def _limits() -> None:
    op.create_table(
        "quota_limits",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=True),
        sa.Column("cohort_id", sa.Integer(), nullable=True),
        sa.Column(
            "resource", sa.String(length=80), nullable=False, comment="gpu:H200, node, nvlink:H100"
        ),
        sa.Column(
            "nominal", sa.BigInteger(), nullable=False, comment="milli-devices, or whole cells"
        ),
        sa.Column("borrowing", sa.BigInteger(), nullable=True),
        sa.Column("lending", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(tenant_id IS NULL) <> (cohort_id IS NULL)", name=op.f("ck_quota_limits_one_owner")
        ),
        sa.ForeignKeyConstraint(
            ["cohort_id"], ["cohorts.id"], name=op.f("fk_quota_limits_cohort_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_quota_limits_tenant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quota_limits")),
        sa.UniqueConstraint(
            "cohort_id", "resource", name=op.f("uq_quota_limits_cohort_id_resource")
        ),
        sa.UniqueConstraint(
            "tenant_id", "resource", name=op.f("uq_quota_limits_tenant_id_resource")
        ),
    )
