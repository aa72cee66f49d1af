"""Finds the run that a schedule submitted last, while it has not ended.

A handover may give a schedule and its run to two users. The name of a run that has ended is free
for jobs of others, as it always is in other tenants. So neither the owner of now nor the name alone
says which run it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.dependencies.standings import (
    ARRAY,
    GANG,
    JOB,
    DependencyTarget,
    read_standing,
)
from gpupool.allocations.schedules.rows import Row
from gpupool.allocations.store.schedule_tables import schedule_runs
from gpupool.allocations.store.tables import IS_LIVE, arrays, gangs, jobs
from gpupool.base.ids import is_id
from gpupool.model.tenant import Principal, UserRole


@dataclass(frozen=True)
class ScheduledRun:
    """A run that has not ended.

    Attributes:
        public_id: Of its job, array or gang.
        stop_id: With it all of the run is stopped: of a gang it is the id of a live member.
        owner: Its user of now, in the tenant of its schedule.
    """

    public_id: str
    stop_id: str
    owner: Principal


def find_live_run(connection: sa.Connection, row: Row) -> ScheduledRun | None:
    """Find the last run of a row of `SCHEDULE`; None: there is none, or it has ended."""
    if row.last_job is None:
        return None
    if is_id(row.last_job):
        mine = sa.and_(jobs.c.public_id == row.last_job, jobs.c.tenant_id == row.tenant_id)
        job = connection.execute(sa.select(jobs).where(mine)).one_or_none()
        return None if job is None else _describe_run(connection, row, JOB, job, job)
    # The run has the name of its instant: of several with that name it is the first one since.
    runs = schedule_runs.c
    instant = sa.select(sa.func.coalesce(sa.func.min(runs.due_ns), 0)).where(
        runs.schedule_id == row.id, runs.job == row.last_job
    )
    since_ns = connection.execute(instant).scalar_one()
    array = sa.select(arrays).where(
        arrays.c.tenant_id == row.tenant_id,
        arrays.c.name == row.last_job,
        arrays.c.submitted_ns >= since_ns,
    )
    found = connection.execute(array.order_by(arrays.c.id).limit(1)).one_or_none()
    if found is not None:
        return _describe_run(connection, row, ARRAY, found, found)
    return _find_live_gang(connection, row, since_ns)


def _find_live_gang(connection: sa.Connection, row: Row, since_ns: int) -> ScheduledRun | None:
    first = sa.select(jobs.c.gang_id).where(
        jobs.c.tenant_id == row.tenant_id,
        jobs.c.array_name == row.last_job,
        jobs.c.submitted_ns >= since_ns,
    )
    key = connection.execute(first.order_by(jobs.c.id).limit(1)).scalar()
    members = sa.select(jobs).where(jobs.c.gang_id == key, IS_LIVE).order_by(jobs.c.id).limit(1)
    member = None if key is None else connection.execute(members).one_or_none()
    if member is None:
        return None
    gang = connection.execute(sa.select(gangs).where(gangs.c.id == key)).one()
    return _describe_run(connection, row, GANG, gang, member)


def _describe_run(
    connection: sa.Connection, row: Row, kind: str, found: Any, stopped: Any
) -> ScheduledRun | None:
    if read_standing(connection, DependencyTarget(kind, found.id)).is_ended:
        return None
    owner = Principal(stopped.user_id, "", row.tenant_id, row.tenant, UserRole.USER)
    return ScheduledRun(found.public_id, stopped.public_id, owner)
