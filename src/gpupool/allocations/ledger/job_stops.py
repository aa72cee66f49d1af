"""Ends of jobs in the ledger: waiting jobs end at once, working jobs are asked to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.ending import count_ended
from gpupool.allocations.ledger.stop_reasons import REQUEUE_REASONS, STOP_REASONS
from gpupool.allocations.store.tables import IS_LIVE, allocations, gangs, jobs, launches
from gpupool.fleet.tables import nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.job import JobState
from gpupool.network.exposing.exposures import delete_exposures
from gpupool.store.database import WriteTransaction

# How to start a gang is kept once for all members. It goes with the last of them, because members
# that are requeued are started from it again.
_FORGET_LAUNCH = (
    gangs.update()
    .where(
        gangs.c.id == sa.bindparam("gang"),
        gangs.c.launch.is_not(None),
        ~sa.exists().where(jobs.c.gang_id == gangs.c.id, IS_LIVE),
    )
    .values(launch=sa.null())
)


def stop_waiting_jobs(
    write: WriteTransaction, job_ids: Sequence[int], why: str, sentence: str = ""
) -> list[str]:
    """End jobs that only wait.

    Args:
        write: The transaction; the caller commits it.
        job_ids: Row ids.
        why: A key of `STOP_REASONS`, or a text.
        sentence: What the jobs say of it; empty: the text of the reason.

    Returns:
        Their public ids.
    """
    if not job_ids:
        return []
    rows = write.execute(sa.select(jobs).where(jobs.c.id.in_(job_ids))).all()
    reason = sentence[:400] or STOP_REASONS.get(why, why)
    write.execute(
        jobs.update()
        .where(jobs.c.id.in_(job_ids))
        .values(
            state=JobState.STOPPED,
            reason=reason,
            ended_ns=write.now_ns,
            stop_requested=why,
            generation=jobs.c.generation + 1,
        )
    )
    write.execute(launches.delete().where(launches.c.job_id.in_(job_ids)))
    delete_exposures(write, [row.public_id for row in rows])
    by_array: Counter[int] = Counter()
    gang_ids = set[int]()
    for row in rows:
        if row.array_id is not None:
            by_array[row.array_id] += 1
        if row.gang_id is not None:
            gang_ids.add(row.gang_id)
    for array, count in by_array.items():
        count_ended(write, array, {JobState.STOPPED: count})
    delete_launches(write, gang_ids)
    for row in rows:
        data = {"name": row.name, "state": "stopped", "reason": reason}
        write.event("job.ended", row.public_id, tenant_id=row.tenant_id, data=data)
    write.announce("queue", *(("job", row.public_id) for row in rows))
    return [row.public_id for row in rows]


def delete_launches(write: WriteTransaction, gang_ids: Iterable[int]) -> None:
    """Delete how to start the gangs whose last member has ended: it may hold secrets."""
    for gang in gang_ids:
        write.execute(_FORGET_LAUNCH, {"gang": gang})


def stop_working_jobs(
    write: WriteTransaction, job_ids: Sequence[int], why: str, grace_s: int | None
) -> list[str]:
    """Request the end of jobs that hold seats. Idempotent.

    A final reason replaces one that would requeue the job; otherwise the first reason stays and the
    latest grace applies. Members of their gangs that wait are not touched.

    Args:
        write: The transaction; the caller commits it.
        job_ids: Row ids.
        why: A key of `STOP_REASONS`.
        grace_s: Seconds between SIGTERM and SIGKILL; None leaves it as it is.

    Returns:
        Public ids of the jobs whose end this call was first to request.
    """
    if not job_ids:
        return []
    # A user's stop of a job that is being preempted must not let it wait again, and a preemption of
    # a job that is being stopped must not revive it.
    weaker = [None] if why in REQUEUE_REASONS else [None, *REQUEUE_REASONS]
    unasked = sa.or_(*(jobs.c.stop_requested == reason for reason in weaker))
    works = jobs.c.state.in_((JobState.STARTING, JobState.RUNNING))
    first = write.execute(
        sa.select(jobs.c.id, jobs.c.public_id).where(jobs.c.id.in_(job_ids), works, unasked)
    ).all()
    write.execute(
        jobs.update()
        .where(jobs.c.id.in_([row.id for row in first]))
        .values(stop_requested=why, generation=jobs.c.generation + 1)
    )
    if grace_s is not None:
        write.execute(jobs.update().where(jobs.c.id.in_(job_ids)).values(stop_grace_s=grace_s))
    # Also those whose end was requested before: their agents must hear of a shorter grace.
    held = sa.and_(
        allocations.c.job_id.in_(job_ids), allocations.c.state != AllocationState.RELEASED
    )
    write.execute(
        allocations.update()
        .where(held)
        .values(state=AllocationState.RELEASING, held_back=False, work_seq=write.touch_ledger())
    )
    write.announce(*(("node", agent) for agent in write.execute(select_agents(held)).scalars()))
    write.announce(*(("job", row.public_id) for row in first))
    return [row.public_id for row in first]


def select_agents(held: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    """Select the agents of the nodes with these allocations."""
    return (
        sa.select(nodes.c.agent)
        .join(allocations, allocations.c.node_id == nodes.c.id)
        .where(held)
        .distinct()
    )


def write_job_events(
    kind: str, write: WriteTransaction, names: Collection[str], data: dict[str, Any]
) -> None:
    """Write one event for each of these jobs."""
    query = sa.select(jobs.c.public_id, jobs.c.name, jobs.c.tenant_id).where(
        jobs.c.public_id.in_(names)
    )
    for row in write.execute(query.order_by(jobs.c.id)).all():
        write.event(kind, row.public_id, tenant_id=row.tenant_id, data={"name": row.name, **data})
