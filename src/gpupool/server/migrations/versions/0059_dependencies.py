"""Jobs wait for the end of others, start again after a failure, and are submitted by schedules."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

_OPEN = sa.text("outcome IS NULL")
_UNMET = sa.text("outcome IS NULL OR outcome = 'doomed'")
_DOOMED = sa.text("outcome = 'doomed'")


def upgrade() -> None:
    _add_retries()
    _create_dependencies()
    _create_schedules()


def _add_retries() -> None:
    # Copied on SQLite, so that definitions read as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("claims", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(sa.Column("retries", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(
            sa.Column(
                "retry_first_s",
                sa.Integer(),
                nullable=False,
                server_default="30",
                comment="pause before the first retry, doubled with each",
            )
        )
        batch_op.add_column(
            sa.Column("retry_most_s", sa.Integer(), nullable=False, server_default="600")
        )
    with op.batch_alter_table("jobs", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(sa.Column("attempt", sa.Integer(), nullable=False, server_default="1"))
        batch_op.add_column(
            sa.Column(
                "not_before_ns",
                sa.BigInteger(),
                nullable=True,
                comment="the next attempt starts after it",
            )
        )
        # Copied as it stands, SQLite would keep the default as ('').
        batch_op.alter_column(
            "reason", existing_type=sa.String(400), server_default="", existing_nullable=False
        )
    op.create_table(
        "attempts",
        sa.Column("job_id", _big_id(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, comment="from 1 on"),
        sa.Column("state", sa.String(16), nullable=False, comment="failed, lost"),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("started_ns", sa.BigInteger(), nullable=True),
        sa.Column("ended_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "log_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="of the job's log then; null: unknown",
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_attempts")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_attempts_job_id"), ondelete="CASCADE"
        ),
    )


def _create_dependencies() -> None:
    op.create_table(
        "dependencies",
        sa.Column("id", _big_id(), nullable=False),
        sa.Column("claim_id", _big_id(), nullable=False),
        sa.Column(
            "kind", sa.String(8), nullable=False, comment="what is awaited: job, array, gang"
        ),
        sa.Column(
            "target_id",
            sa.BigInteger(),
            nullable=False,
            comment="its row in the table of its kind",
        ),
        sa.Column(
            "target_index", sa.Integer(), nullable=True, comment="of an array: that member alone"
        ),
        sa.Column("target", sa.String(32), nullable=False, comment="its public id"),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("condition", sa.String(4), nullable=False, comment="ok, any, fail"),
        sa.Column(
            "outcome",
            sa.String(8),
            nullable=True,
            comment="met, never, doomed: to be never once its jobs are ended; null: open",
        ),
        sa.Column(
            "ending", sa.String(400), nullable=False, server_default="", comment="how it ended"
        ),
        sa.Column("settled_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dependencies")),
        sa.ForeignKeyConstraint(
            ["claim_id"],
            ["claims.id"],
            name=op.f("fk_dependencies_claim_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_dependencies_claim_id", "dependencies", ["claim_id"])
    op.create_index(
        "ix_dependencies_open",
        "dependencies",
        ["kind", "target_id"],
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index(
        "ix_dependencies_doomed",
        "dependencies",
        ["id"],
        sqlite_where=_DOOMED,
        postgresql_where=_DOOMED,
    )
    op.create_index(
        "ix_dependencies_unmet",
        "dependencies",
        ["claim_id"],
        sqlite_where=_UNMET,
        postgresql_where=_UNMET,
    )


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False, comment="its jobs are of"),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("cron", sa.String(100), nullable=False),
        sa.Column("time_zone", sa.String(64), nullable=False),
        sa.Column("overlap", sa.String(8), nullable=False, comment="skip, queue, replace"),
        sa.Column("deadline_s", sa.Integer(), nullable=False, comment="later than that: missed"),
        sa.Column("body", sa.JSON(), nullable=False, comment="see wire.submissions.JobIn"),
        sa.Column("run_as", sa.JSON(), nullable=True, comment="local user that starts the command"),
        sa.Column("state", sa.String(8), nullable=False, comment="active, paused"),
        sa.Column("reason", sa.String(400), nullable=False, comment="why it is paused"),
        sa.Column("next_ns", sa.BigInteger(), nullable=False, comment="the next instant"),
        sa.Column("last_job", sa.String(80), nullable=True, comment="job or array of the last run"),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_schedules_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_schedules_user_id")),
        sa.UniqueConstraint("public_id", name=op.f("uq_schedules_public_id")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_schedules_tenant_id_name")),
    )
    active = sa.text("state = 'active'")
    op.create_index(
        "ix_schedules_due",
        "schedules",
        ["next_ns"],
        sqlite_where=active,
        postgresql_where=active,
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule_id", sa.Integer(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "outcome",
            sa.String(16),
            nullable=False,
            comment="submitted, skipped, missed, refused",
        ),
        sa.Column("job", sa.String(80), nullable=True),
        sa.Column("text", sa.String(400), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("schedule_id", "due_ns", name=op.f("pk_schedule_runs")),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedules.id"],
            name=op.f("fk_schedule_runs_schedule_id"),
            ondelete="CASCADE",
        ),
    )


def _big_id() -> sa.types.TypeEngine[int]:
    """Make a 64-bit key that SQLite can number by itself."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
