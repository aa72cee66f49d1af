"""Tables of the ledger: intervals while they are young, hours and days when they are old.

What was held is in exactly one of `intervals`, `usage_hours` and `usage_days` at any
moment: the rollup moves it from one to the next in single transactions. What the capacity
was stays in fleet's `device_spans`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from gpupool.store.tables import BigId, metadata

intervals = sa.Table(
    "intervals",
    metadata,
    # One row per seat, and one more for each time it was resized, of which the latest is open.
    # It counts end_s - start_s whole seconds; an open one has no end.
    # The rollup moves start_s forward as it moves what came before into usage_hours.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("allocation_id", sa.BigInteger, nullable=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), nullable=False),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), nullable=False),
    sa.Column("project_id", sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("gpu_milli", sa.Integer, nullable=False),
    sa.Column("memory_mib", sa.BigInteger, nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False),
    sa.Column("end_s", sa.BigInteger, nullable=True),
    sa.Index(
        "uq_intervals_open",
        "allocation_id",
        "device_id",
        unique=True,
        sqlite_where=sa.text("end_s IS NULL"),
        postgresql_where=sa.text("end_s IS NULL"),
    ),
    sa.Index("ix_intervals_end_s", "end_s"),
    sa.Index("ix_intervals_start_s", "start_s"),
)


def _build_amount_columns() -> list[sa.Column[int]]:
    return [
        sa.Column("card_milliseconds", sa.BigInteger, nullable=False),
        sa.Column("memory_mib_seconds", sa.BigInteger, nullable=False),
        sa.Column("dominant_micro_seconds", sa.BigInteger, nullable=False),
    ]


usage_hours = sa.Table(
    "usage_hours",
    metadata,
    # What was held in one whole hour; `under` is the kind of the card's span beneath it.
    sa.Column("hour_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id"), primary_key=True),
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("under", sa.String(16), primary_key=True),
    *_build_amount_columns(),
    sqlite_with_rowid=False,
)

usage_days = sa.Table(
    "usage_days",
    metadata,
    # The same per day of UTC, without the job.
    sa.Column("day_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("device_id", sa.ForeignKey("devices.id"), primary_key=True),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id"), primary_key=True),
    sa.Column("under", sa.String(16), primary_key=True),
    *_build_amount_columns(),
    sqlite_with_rowid=False,
)


def _build_promise_columns() -> list[sa.Column[int]]:
    """GPU time within the promise, beyond it, and promised time that passed in waiting for it."""
    return [
        sa.Column("kept_milliseconds", sa.BigInteger, nullable=True),
        sa.Column("borrowed_milliseconds", sa.BigInteger, nullable=True),
        sa.Column("denied_milliseconds", sa.BigInteger, nullable=True),
    ]


delivered = sa.Table(
    "delivered",
    metadata,
    # What jobs really used, as far as it was measured, in slots of 300 s, an hour, or a day
    # (there the job is 0). Null is unknown.
    sa.Column("width_s", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tenant_id", sa.ForeignKey("tenants.id"), primary_key=True),
    sa.Column("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id"), primary_key=True),
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("gpu_milliseconds", sa.BigInteger, nullable=True),
    sa.Column("cpu_milliseconds", sa.BigInteger, nullable=True),
    *_build_promise_columns(),
    sqlite_with_rowid=False,
)

job_usage = sa.Table(
    "job_usage",
    metadata,
    # How much of a job's own running sums is in `delivered` already.
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("gpu_milliseconds", sa.BigInteger, nullable=True),
    sa.Column("cpu_milliseconds", sa.BigInteger, nullable=True),
    sa.Column("at_s", sa.BigInteger, nullable=False, index=True),
    *_build_promise_columns(),
)

owner_spans = sa.Table(
    "owner_spans",
    metadata,
    # Times in which jobs belonged to another user than now. Intervals have their own owner; what a
    # job held of processors and main memory is read from its allocations, which have none.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("job_id", sa.BigInteger, nullable=False, index=True),
    sa.Column("user_id", sa.ForeignKey("users.id"), nullable=False),
    sa.Column("start_s", sa.BigInteger, nullable=False, comment="0: since the job began"),
    sa.Column("end_s", sa.BigInteger, nullable=False),
)

ledger_marks = sa.Table(
    "ledger_marks",
    metadata,
    # How far the rollup has come; see metering.books.RollupMarks.
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("fine_s", sa.BigInteger, nullable=False),
    sa.Column("coarse_s", sa.BigInteger, nullable=False),
    sa.CheckConstraint("id = 1", name="one_row"),
)

cluster_holds = sa.Table(
    "cluster_holds",
    metadata,
    # On nodes of a cluster: one row per container's seats, from when they are held to when another
    # size or tenant holds them, or none. As job and as allocation its intervals name it by the
    # negative of its id.
    sa.Column("id", BigId, primary_key=True),
    sa.Column("node_id", sa.ForeignKey("nodes.id"), nullable=False),
    sa.Column("uid", sa.String(253), nullable=False),
    sa.Column("container", sa.String(63), nullable=False),
    sa.Column("held_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_ns", sa.BigInteger, nullable=True),
    sa.Column("name", sa.String(317), nullable=False),
    sa.UniqueConstraint("node_id", "uid", "container", "held_ns"),
)

# `allocations` keeps the jobs; the books read the owner of a job and what it used in the end.
jobs_view = sa.table(
    "jobs",
    sa.column("id", sa.BigInteger),
    sa.column("public_id", sa.String),
    sa.column("name", sa.String),
    sa.column("tenant_id", sa.Integer),
    sa.column("project_id", sa.Integer),
    sa.column("user_id", sa.Integer),
    sa.column("placed_ns", sa.BigInteger),
    sa.column("cpu_milliseconds", sa.BigInteger),
    sa.column("claim_id", sa.BigInteger),
)
allocations_view = sa.table(
    "allocations",
    sa.column("id", sa.BigInteger),
    sa.column("job_id", sa.BigInteger),
    sa.column("sharing", sa.String),
    sa.column("state", sa.String),
    sa.column("granted_ns", sa.BigInteger),
    sa.column("released_ns", sa.BigInteger),
    sa.column("cpu_milli", sa.BigInteger),
    sa.column("host_bytes", sa.BigInteger),
    sa.column("mechanism", sa.String),
)
seats_view = sa.table("seats", sa.column("allocation_id", sa.BigInteger))
claims_view = sa.table(
    "claims",
    sa.column("id", sa.BigInteger),
    sa.column("sharing", sa.String),
    sa.column("preemptible", sa.Boolean),
    sa.column("reservation", sa.String),
)


start_tallies = sa.Table(
    "start_tallies",
    metadata,
    # Starts that claims were told, by sort (a promise, or an estimate of some kind), and what came
    # of them.
    sa.Column("sort", sa.String(63), primary_key=True),
    sa.Column("kept", sa.BigInteger, nullable=False),
    sa.Column("missed", sa.BigInteger, nullable=False),
)


def add_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, adding their numbers to rows of the same key that are there. Null plus a number
    is the number."""
    if rows:
        connection.execute(
            insert_or_add(connection, table).values(
                {c.name: sa.bindparam(c.name) for c in table.c}
            ),
            rows,
        )


def insert_or_add(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert into a table of sums that adds up where the key is there already."""
    return _build_insert_or_add(connection.dialect.name, table)


@cache
def _build_insert_or_add(dialect: str, table: sa.Table) -> Any:
    insert = (postgresql if dialect == "postgresql" else sqlite).insert(table)
    keys = list(table.primary_key.columns)
    sums = [column for column in table.c if column not in set(keys)]
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={column.name: _add_columns(column, insert.excluded[column.name]) for column in sums},
    )


def _add_columns(old: Any, new: Any) -> Any:
    return sa.func.coalesce(old + new, old, new) if old.nullable else old + new
