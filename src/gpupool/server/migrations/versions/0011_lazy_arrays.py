"""Arrays have a row of their own, and arrays and gangs keep how to start their members once."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa
from alembic import op

from gpupool.base.ids import new_id

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LIVE = "state IN ('pending', 'starting', 'running')"
_ENDED = ("done", "failed", "stopped", "lost")


def upgrade() -> None:
    _create_arrays()
    # Copied on SQLite, so that its definition reads as a new pool's; changed in place on
    # PostgreSQL.
    copied: Literal["always", "never"] = (
        "always" if op.get_bind().dialect.name == "sqlite" else "never"
    )
    with op.batch_alter_table("gangs", schema=None, recreate=copied) as batch_op:
        comment = "how to start its members; null: all have ended"
        batch_op.add_column(sa.Column("launch", sa.JSON(), nullable=True, comment=comment))
    with op.batch_alter_table("jobs", schema=None, recreate=copied) as batch_op:
        batch_op.add_column(sa.Column("array_id", _BIG_ID, nullable=True))
        batch_op.create_foreign_key(batch_op.f("fk_jobs_array_id"), "arrays", ["array_id"], ["id"])
        batch_op.alter_column(
            "reason",
            existing_type=sa.String(length=400),
            server_default="",
            existing_nullable=False,
        )
    _index(
        "ix_jobs_array_member",
        "jobs",
        ["array_id", "array_index"],
        "array_id IS NOT NULL",
        unique=True,
    )
    _index("ix_jobs_array_live", "jobs", ["array_id"], f"{_LIVE} AND array_id IS NOT NULL")
    _adopt_earlier_arrays()


def _create_arrays() -> None:
    comments = {"done": "members that ended so; also the next"}
    numbers = [
        sa.Column(
            name, sa.Integer(), server_default="0", nullable=False, comment=comments.get(name)
        )
        for name in _ENDED
    ]
    sizes = {
        "size": "members in all, numbered from 0",
        "made": "members that have a row in jobs",
        "next_index": "every member below it has a row in jobs",
    }
    owners = ["claim_id", "tenant_id", "project_id", "user_id"]
    op.create_table(
        "arrays",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        *(
            sa.Column(name, _BIG_ID if name == "claim_id" else sa.Integer(), nullable=False)
            for name in owners
        ),
        sa.Column("name", sa.String(length=63), nullable=False),
        *(
            sa.Column(name, sa.Integer(), nullable=False, comment=comment)
            for name, comment in sizes.items()
        ),
        *numbers,
        sa.Column("command", sa.JSON(), nullable=False),
        sa.Column(
            "launch",
            sa.JSON(),
            nullable=True,
            comment="how to start its members; null: all have ended",
        ),
        sa.Column("submitted_ns", sa.BigInteger(), nullable=False),
        sa.Column(
            "stopped_ns",
            sa.BigInteger(),
            nullable=True,
            comment="when it was stopped: no further member is made",
        ),
        sa.Column("stop_reason", sa.String(length=400), server_default="", nullable=False),
        *(
            sa.ForeignKeyConstraint(
                [name], [f"{name.removesuffix('_id')}s.id"], name=op.f(f"fk_arrays_{name}")
            )
            for name in owners
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_arrays")),
        sa.UniqueConstraint("public_id", name=op.f("uq_arrays_public_id")),
        sa.UniqueConstraint("claim_id", name=op.f("uq_arrays_claim_id")),
    )
    op.create_index("ix_arrays_tenant_id_name", "arrays", ["tenant_id", "name"])
    _index("ix_arrays_rest", "arrays", ["tenant_id", "id"], "stopped_ns IS NULL AND made < size")


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(
        name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition
    )


def _adopt_earlier_arrays() -> None:
    """Arrays from before have all their members already; each gets its row, so that it is shown as
    one."""
    connection = op.get_bind()
    counts = ", ".join(
        f"sum(CASE WHEN state = '{state}' THEN 1 ELSE 0 END) AS {state}" for state in _ENDED
    )
    columns = (
        f"claim_id, min(id) AS first, count(*) AS size, min(submitted_ns) AS submitted_ns, {counts}"
    )
    members = "jobs WHERE array_name IS NOT NULL AND gang_id IS NULL"
    query = f"SELECT {columns} FROM {members} GROUP BY claim_id ORDER BY claim_id"  # our own words
    found = connection.execute(sa.text(query)).all()
    for row in found:
        connection.execute(
            sa.text(
                "INSERT INTO arrays (public_id, claim_id, tenant_id, project_id, user_id, name, size, made, next_index,"
                " done, failed, stopped, lost, command, submitted_ns) SELECT :public_id, claim_id, tenant_id,"
                " project_id, user_id, array_name, :size, :size, :size, :done, :failed, :stopped, :lost, command,"
                " :submitted_ns FROM jobs WHERE id = :first"
            ),
            {**row._mapping, "public_id": new_id("y")},
        )
    connection.execute(
        sa.text(
            "UPDATE jobs SET array_id = (SELECT id FROM arrays WHERE arrays.claim_id = jobs.claim_id) "
            "WHERE array_name IS NOT NULL AND gang_id IS NULL"
        )
    )
