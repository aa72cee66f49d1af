"""Arrays as their tenant is shown them: as a whole, the part that still waits as one line, a member that is no job yet.

Whose scope it is, the caller says (`where`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import Reference, is_array_id, reference_of, split_name
from gpupool.allocations.gangs import within_out
from gpupool.allocations.tables import IS_LIVE, arrays, claims, jobs
from gpupool.base.errors import NotOneJob
from gpupool.base.units import format_share
from gpupool.model.job import ENDED, JobState
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.jobs import ArrayOut, JobOut

Row = Any
Why = Callable[[str], str]

ARRAY = (
    sa.select(
        arrays,
        claims.c.gpu_milli,
        claims.c.memory_bytes,
        claims.c.cards,
        claims.c.model,
        claims.c.sharing,
        claims.c.priority,
        claims.c.max_seconds,
        claims.c.cpu_milli,
        claims.c.host_bytes,
        claims.c.within_required,
        claims.c.within_preferred,
        claims.c.preemptible,
        claims.c.requeue,
        claims.c.reservation,
        claims.c.profile,
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        users.c.name.label("user"),
    )
    .join(claims, claims.c.id == arrays.c.claim_id)
    .join(tenants, tenants.c.id == arrays.c.tenant_id)
    .join(projects, projects.c.id == arrays.c.project_id)
    .join(users, users.c.id == arrays.c.user_id)
)
_LIVE_MEMBERS = (
    sa.select(jobs.c.state, sa.func.count().label("jobs"))
    .where(jobs.c.array_id == sa.bindparam("array"), IS_LIVE)
    .group_by(jobs.c.state)
)
_MEMBER = sa.select(jobs.c.id).where(
    jobs.c.array_id == sa.bindparam("array"), jobs.c.array_index == sa.bindparam("index")
)


def find_array(connection: sa.Connection, where: sa.ColumnElement[bool], named: str) -> Row | None:
    """By id, or by name the newest."""
    mine = arrays.c.public_id == named if is_array_id(named) else arrays.c.name == named
    return connection.execute(ARRAY.where(where, mine).order_by(arrays.c.id.desc()).limit(1)).one_or_none()


def find_member(connection: sa.Connection, where: sa.ColumnElement[bool], named: str) -> tuple[Row, int] | None:
    """The array and the index of what is called `sweep.17` or by its reference; None where there is no such member."""
    reference = reference_of(named)
    parts = (reference.array, reference.index) if reference else split_name(named)
    row = None if parts is None else find_array(connection, where, parts[0])
    return (row, parts[1]) if row is not None and parts is not None and parts[1] < row.size else None


def member_key(connection: sa.Connection, array: Row, index: int) -> int | None:
    """The number of the member's row in `jobs`; None where it is no job yet."""
    return connection.execute(_MEMBER, {"array": array.id, "index": index}).scalar_one_or_none()


def not_one_job(row: Row) -> NotOneJob:
    """What is said where one job is wanted and an array is named."""
    example = f"{row.name}.{max(0, row.next_index - 1)}"
    return NotOneJob(
        f"{row.name} is an array of {row.size} jobs, not one job",
        hint=f"name one of them, as  gpupool logs {example}; gpupool show {row.name}  tells how they stand",
        array=row.public_id,
        jobs=row.size,
    )


def waiting_rest(row: Row, why: Why) -> JobOut:
    """All members that are no jobs yet, as one line; of a stopped array, how that line ended."""
    count = row.size - row.made
    if count == 1:
        return unmade_member(row, row.next_index, why)
    out = unmade_member(row, row.next_index, why)
    return out.model_copy(
        update={
            "id": row.public_id,
            "name": f"{row.name}.[{row.next_index}-{row.size - 1}]",
            "jobs": count,
            "array_index": None,
        }
    )


def unmade_member(row: Row, index: int, why: Why) -> JobOut:
    """A member that has no row in `jobs`, shown as the job that it will be."""
    ended = row.stopped_ns is not None
    reference = str(Reference(row.public_id, index))
    return JobOut(
        id=reference,
        name=f"{row.name}.{index}",
        state=JobState.STOPPED if ended else JobState.PENDING,
        reason=row.stop_reason if ended else why(reference),
        tenant=row.tenant,
        project=row.project,
        user=row.user,
        gpu_milli=row.gpu_milli,
        memory_bytes=row.memory_bytes,
        count=row.cards,
        model=row.model,
        sharing=row.sharing,
        share=share_of(row),
        priority=row.priority,
        max_seconds=row.max_seconds,
        command=row.command,
        array=row.name,
        array_index=index,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        within=within_out(row.within_required, row.within_preferred),
        preemptible=row.preemptible,
        requeue=row.requeue,
        reservation=row.reservation,
        profile=row.profile,
        generation=1 if ended else 0,
        submitted_ns=row.submitted_ns,
        ended_ns=row.stopped_ns,
    )


def share_of(row: Row) -> str:
    best_effort = row.sharing == "best-effort"
    return format_share(row.gpu_milli, row.memory_bytes, row.cards, best_effort=best_effort, profile=row.profile)


def describe_array(connection: sa.Connection, row: Row, next_member: str | None, why: Why) -> ArrayOut:
    """Counts by state without reading its members: live ones are few, ended ones are counted as they end."""
    states = {str(state): getattr(row, state) for state in sorted(ENDED)}
    states |= {live.state: live.jobs for live in connection.execute(_LIVE_MEMBERS, {"array": row.id})}
    left = row.size - row.made
    state = JobState.PENDING if row.stopped_ns is None else JobState.STOPPED
    states[state] = states.get(state, 0) + left
    return ArrayOut(
        id=row.public_id,
        name=row.name,
        size=row.size,
        first=f"{row.name}.0",
        last=f"{row.name}.{row.size - 1}",
        states={name: count for name, count in states.items() if count},
        not_made=left,
        next=next_member,
        reason=row.stop_reason if row.stopped_ns is not None else why(next_member) if next_member else "",
        tenant=row.tenant,
        project=row.project,
        user=row.user,
        share=share_of(row),
        gpu_milli=row.gpu_milli,
        memory_bytes=row.memory_bytes,
        count=row.cards,
        model=row.model,
        priority=row.priority,
        max_seconds=row.max_seconds,
        preemptible=row.preemptible,
        requeue=row.requeue,
        reservation=row.reservation,
        command=row.command,
        submitted_ns=row.submitted_ns,
        stopped_ns=row.stopped_ns,
    )
