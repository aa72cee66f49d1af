"""Reads and writes schedules; the callers check permissions."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.schedule_tables import schedule_runs, schedules
from gpupool.store.content_tag import make_content_tag
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.user_names import find_ended_users
from gpupool.wire.chains.schedules import ScheduleOut, ScheduleRunOut

Row = sa.Row[Any]
#: Topic of every change of a schedule.
TOPIC: Final = "schedules"
#: Runs that are kept of one schedule.
KEPT_RUNS: Final = 500

SCHEDULE = (
    sa.select(
        schedules,
        tenants.c.name.label("tenant"),
        users.c.name.label("user"),
        users.c.role,
        users.c.default_project,
        users.c.tenant_id.label("user_tenant_id"),
        users.c.disabled_ns,
        users.c.retired_ns,
        users.c.unix_uid,
        users.c.run_as_uid,
    )
    .join(tenants, tenants.c.id == schedules.c.tenant_id)
    .join(users, users.c.id == schedules.c.user_id)
)
IS_ACTIVE = schedules.c.state == sa.literal_column("'active'")
_OLD_RUNS = (
    sa.select(schedule_runs.c.due_ns)
    .where(schedule_runs.c.schedule_id == sa.bindparam("schedule"))
    .order_by(schedule_runs.c.due_ns.desc())
    .limit(1)
    .offset(KEPT_RUNS)
)


def describe_schedule(row: Row, *, has_command: bool, has_job: bool = False) -> ScheduleOut:
    """Describe a row of `SCHEDULE`.

    Args:
        row: The schedule.
        has_command: Whether the reader may see its command.
        has_job: Whether the reader may see its whole job, whose environment may hold secrets.
    """
    return ScheduleOut(
        id=row.public_id,
        name=row.name,
        tenant=row.tenant,
        user=row.user,
        cron=row.cron,
        time_zone=row.time_zone,
        overlap=row.overlap,
        deadline_seconds=row.deadline_s,
        state=row.state,
        reason=row.reason,
        next_ns=row.next_ns if row.state == "active" else None,
        last_job=row.last_job,
        command=row.body["launch"]["argv"] if has_command else [],
        job=row.body if has_job else None,
        created_ns=row.created_ns,
    )


def tag_schedule(row: Row, *, has_job: bool) -> int:
    """Make the tag that a change of a schedule names.

    Args:
        row: A row of `SCHEDULE`.
        has_job: Whether the reader may see its whole job. A tag of it tells of its secrets.
    """
    job = row.body if has_job else None
    return make_content_tag([row.cron, row.time_zone, row.overlap, row.deadline_s, job])


def read_runs(connection: sa.Connection, schedule: int, limit: int) -> list[ScheduleRunOut]:
    """Read the latest runs of a schedule, the last one first."""
    query = sa.select(schedule_runs).where(schedule_runs.c.schedule_id == schedule)
    found = list[ScheduleRunOut]()
    for row in connection.execute(query.order_by(schedule_runs.c.due_ns.desc()).limit(limit)):
        values = dict(row._mapping)
        del values["schedule_id"]
        found.append(ScheduleRunOut(**values))
    return found


def pause_schedule(write: WriteTransaction, row: Row, reason: str) -> None:
    """Pause a schedule. Idempotent."""
    _set_state(write, row, state="paused", reason=reason[:400])
    write.event("schedule.paused", row.name, tenant_id=row.tenant_id, data={"reason": reason})


def resume_schedule(write: WriteTransaction, row: Row, next_ns: int) -> None:
    """Let a schedule go on with an instant. Idempotent."""
    _set_state(write, row, state="active", reason="", next_ns=next_ns)
    write.event("schedule.resumed", row.name, tenant_id=row.tenant_id)


def remove_schedule(write: WriteTransaction, row: Row) -> None:
    """Remove a schedule and its history; its jobs go on. Idempotent."""
    if write.execute(schedules.delete().where(schedules.c.id == row.id)).rowcount:
        write.event("schedule.removed", row.name, tenant_id=row.tenant_id)
    write.announce(TOPIC)


def remove_of_ended_users(write: WriteTransaction) -> None:
    """Remove the schedules of users that end in this transaction. Idempotent."""
    ended = find_ended_users(write)
    if not ended:
        return
    for row in write.execute(sa.select(schedules).where(schedules.c.user_id.in_(ended))).all():
        remove_schedule(write, row)


def change_schedule(write: WriteTransaction, row: Row, values: dict[str, Any]) -> None:
    """Change when a schedule submits, or what. Idempotent."""
    _set_state(write, row, **values)
    write.event("schedule.changed", row.name, tenant_id=row.tenant_id)


def _set_state(write: WriteTransaction, row: Row, **values: Any) -> None:
    write.execute(schedules.update().where(schedules.c.id == row.id).values(**values))
    write.announce(TOPIC)


def record_run(
    write: WriteTransaction, row: Row, run: ScheduleRunOut, next_ns: int | None = None
) -> None:
    """Record what became of an instant, and go on to the next one. Idempotent.

    Of a schedule that was removed since `row` was read nothing is recorded.

    Args:
        write: The transaction; the caller commits it.
        row: The schedule.
        run: What became of the instant; a second record of it is left out.
        next_ns: The next instant; None leaves it as it is.
    """
    here = schedules.c.id == row.id
    if write.execute(sa.select(schedules.c.id).where(here)).first() is None:
        return
    mine = sa.and_(schedule_runs.c.schedule_id == row.id, schedule_runs.c.due_ns == run.due_ns)
    if write.execute(sa.select(schedule_runs.c.due_ns).where(mine)).first() is None:
        write.execute(schedule_runs.insert().values(schedule_id=row.id, **run.model_dump()))
    if next_ns is not None:
        # A change of the expression since `row` was read has set another next instant.
        same = (schedules.c.cron == row.cron, schedules.c.time_zone == row.time_zone)
        write.execute(schedules.update().where(here, *same).values(next_ns=next_ns))
    if run.job is not None:
        write.execute(schedules.update().where(here).values(last_job=run.job))
    oldest = write.execute(_OLD_RUNS, {"schedule": row.id}).scalar_one_or_none()
    if oldest is not None:
        old = sa.and_(schedule_runs.c.schedule_id == row.id, schedule_runs.c.due_ns <= oldest)
        write.execute(schedule_runs.delete().where(old))
    data = {"outcome": run.outcome, "job": run.job, "text": run.text}
    write.event("schedule.run", row.name, tenant_id=row.tenant_id, data=data)
    write.announce(TOPIC)
