"""Gangs, processors and main memory, jobs that may be preempted, reservations with a name."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0003"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "gangs",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column(
            "spec", sa.JSON(), nullable=False, comment="its roles and groups, see allocations.gangs"
        ),
        sa.Column("submitted_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_gangs_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gangs")),
        sa.UniqueConstraint("public_id", name=op.f("uq_gangs_public_id")),
    )
    # Copied on SQLite, so that a definition reads as a new pool's; changed in place on PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    _columns("claims", copied, _claims())
    _columns("nodes", copied, [_number("used_cpu_milli"), _number("used_host_bytes")])
    _columns("allocations", copied, _allocations(), blank=(("why", 200), ("fence_why", 200)))
    with op.batch_alter_table("jobs", schema=None, recreate=copied) as batch_op:
        for column in _jobs():
            batch_op.add_column(column)
        batch_op.create_foreign_key(batch_op.f("fk_jobs_gang_id"), "gangs", ["gang_id"], ["id"])
        batch_op.create_index(batch_op.f("ix_jobs_gang_id"), ["gang_id"], unique=False)
        batch_op.alter_column(
            "reason",
            existing_type=sa.String(length=400),
            server_default="",
            existing_nullable=False,
        )
    _reservations()


def _columns(
    table: str,
    copied: Literal["always", "never"],
    columns: list[sa.Column[object]],
    blank: tuple[tuple[str, int], ...] = (),
) -> None:
    with op.batch_alter_table(table, schema=None, recreate=copied) as batch_op:
        for column in columns:
            batch_op.add_column(column)
        for name, length in blank:  # copied as it stands, SQLite would keep the default as ('')
            batch_op.alter_column(
                name, existing_type=sa.String(length), server_default="", existing_nullable=False
            )


def _number(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger(), server_default="0", nullable=False, comment=comment)


def _flag(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False, comment=comment)


def _claims() -> list[sa.Column[object]]:
    return [
        _number("cpu_milli", "of the node, for the whole claim"),
        _number("host_bytes", "main memory of the node"),
        sa.Column(
            "within_required",
            sa.String(63),
            nullable=True,
            comment="level that its cards must share",
        ),
        sa.Column("within_preferred", sa.String(63), nullable=True),
        _flag("preemptible"),
        _flag("requeue", "start again when it is lost"),
        sa.Column(
            "reservation",
            sa.String(63),
            nullable=True,
            comment="name of the one whose cards it may use",
        ),
    ]


def _allocations() -> list[sa.Column[object]]:
    return [
        _number("cpu_milli"),
        _number("host_bytes"),
        _flag("held_back", "a launcher's, until it may start"),
    ]


def _jobs() -> list[sa.Column[object]]:
    again = "times it was sent back to wait"
    return [
        sa.Column("gang_id", _BIG_ID, nullable=True),
        sa.Column("gang_rank", sa.Integer(), nullable=True),
        sa.Column("gang_role", sa.String(63), nullable=True),
        _flag("launcher", "starts when its gang runs"),
        sa.Column(
            "leaving_for", sa.String(16), nullable=True, comment="job or gang that gets its seats"
        ),
        sa.Column(
            "saved_ns",
            sa.BigInteger(),
            nullable=True,
            comment="when it last said that its work is saved",
        ),
        sa.Column(
            "moving_to",
            sa.JSON(),
            nullable=True,
            comment="cards kept for it: [uuid, milli, bytes] each",
        ),
        sa.Column("preemptions", sa.Integer(), server_default="0", nullable=False, comment=again),
    ]


def _reservations() -> None:
    """Made anew: no version has ever written a row of it."""
    op.drop_table("reservations")
    op.create_table(
        "reservations",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("tenant_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False, comment="who made it"),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("gpu_milli", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("cards", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=63), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column(
            "replicas",
            sa.Integer(),
            nullable=False,
            comment="that many nodes or places, each with this shape",
        ),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("start_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_ns", sa.BigInteger(), nullable=True),
        sa.Column(
            "every_ns",
            sa.BigInteger(),
            nullable=True,
            comment="comes again after that long; null: once",
        ),
        sa.Column(
            "until_ns", sa.BigInteger(), nullable=True, comment="no repetition begins from then on"
        ),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_reservations_tenant_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_reservations_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
        sa.UniqueConstraint("public_id", name=op.f("uq_reservations_public_id")),
    )
    op.create_index(
        op.f("ix_reservations_tenant_id_name"), "reservations", ["tenant_id", "name"], unique=False
    )
