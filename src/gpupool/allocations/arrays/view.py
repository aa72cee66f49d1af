"""Arrays in answers: as a whole, their rest as one line, or a member without a row.

The caller limits the scope (`where`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import (
    MemberReference,
    is_array_id,
    parse_reference,
    split_name,
)
from gpupool.allocations.store.gangs import describe_within
from gpupool.allocations.store.tables import IS_LIVE, arrays, claims, jobs
from gpupool.base.errors import NotOneJob
from gpupool.base.units import format_share
from gpupool.model.claim import SharingKind
from gpupool.model.job import ENDED, JobState
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.jobs import ArrayOut, JobOut

Row = Any
#: Returns why a waiting job waits, by its public id or reference.
WaitReason = Callable[[str], str]

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
    """Return the array of that id, or the newest of that name."""
    mine = arrays.c.public_id == named if is_array_id(named) else arrays.c.name == named
    return connection.execute(
        ARRAY.where(where, mine).order_by(arrays.c.id.desc()).limit(1)
    ).one_or_none()


def find_member(
    connection: sa.Connection, where: sa.ColumnElement[bool], named: str
) -> tuple[Row, int] | None:
    """Return array and index of `sweep.17` or of a reference; None if there is no such member."""
    reference = parse_reference(named)
    parts = (reference.array, reference.index) if reference else split_name(named)
    row = None if parts is None else find_array(connection, where, parts[0])
    return (
        (row, parts[1]) if row is not None and parts is not None and parts[1] < row.size else None
    )


def find_member_key(connection: sa.Connection, array: Row, index: int) -> int | None:
    """Return the row id of a member in `jobs`; None if it has no row."""
    return connection.execute(_MEMBER, {"array": array.id, "index": index}).scalar_one_or_none()


def build_not_one_job_error(row: Row) -> NotOneJob:
    """Build the error for an array's name where one job is expected."""
    example = f"{row.name}.{max(0, row.next_index - 1)}"
    return NotOneJob(
        f"{row.name} is an array of {row.size} jobs, not one job",
        hint=f"name one of them, as  gpupool logs {example}; "
        f"gpupool show {row.name}  tells how they stand",
        array=row.public_id,
        jobs=row.size,
    )


def describe_rest(row: Row, why: WaitReason) -> JobOut:
    """Describe the members without a row as one line; of a stopped array, how they ended."""
    count = row.size - row.made
    # Described as its first member, because all members of an array are alike.
    out = describe_uncreated_member(row, row.next_index, why)
    if count == 1:
        return out
    return out.model_copy(
        update={
            "id": row.public_id,
            "name": f"{row.name}.[{row.next_index}-{row.size - 1}]",
            "jobs": count,
            "array_index": None,
        }
    )


def describe_uncreated_member(row: Row, index: int, why: WaitReason) -> JobOut:
    """Describe a member without a row as the job that it will be."""
    ended = row.stopped_ns is not None
    reference = str(MemberReference(row.public_id, index))
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
        share=describe_share(row),
        priority=row.priority,
        max_seconds=row.max_seconds,
        command=row.command,
        array=row.name,
        array_index=index,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        within=describe_within(row.within_required, row.within_preferred),
        preemptible=row.preemptible,
        requeue=row.requeue,
        reservation=row.reservation,
        profile=row.profile,
        generation=1 if ended else 0,
        submitted_ns=row.submitted_ns,
        ended_ns=row.stopped_ns,
    )


def describe_share(row: Row) -> str:
    """Return the share of a claim as text."""
    return format_share(
        row.gpu_milli,
        row.memory_bytes,
        row.cards,
        unpromised=SharingKind(row.sharing).unpromised_text,
        profile=row.profile,
    )


def describe_array(
    connection: sa.Connection, row: Row, next_member: str | None, why: WaitReason
) -> ArrayOut:
    """Count an array's members by state, without reading those that have ended."""
    # The row counts ended members, the partial index has the live ones: an array of a million that
    # has run is described as fast as a new one.
    states = {str(state): getattr(row, state) for state in sorted(ENDED)}
    for live in connection.execute(_LIVE_MEMBERS, {"array": row.id}):
        states[live.state] = live.jobs
    left = row.size - row.made
    state = JobState.PENDING if row.stopped_ns is None else JobState.STOPPED
    states[state] = states.get(state, 0) + left
    reason = ""
    if row.stopped_ns is not None:
        reason = row.stop_reason
    elif next_member:
        reason = why(next_member)
    return ArrayOut(
        id=row.public_id,
        name=row.name,
        size=row.size,
        first=f"{row.name}.0",
        last=f"{row.name}.{row.size - 1}",
        states={name: count for name, count in states.items() if count},
        not_made=left,
        next=next_member,
        reason=reason,
        tenant=row.tenant,
        project=row.project,
        user=row.user,
        share=describe_share(row),
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
