"""What the end of one job means for its gang: gangs end and requeue as a whole.

* A gang ends when a member fails, is lost or is stopped, or when its launcher is done. Members that
  still run are stopped.
* A member that is requeued (preempted, its card lost) takes the others with it, and the gang starts
  anew. Once a member is done that is impossible, and the gang ends.
* A member that is done stops no running member, but members that had not started are not started
  any more.
* A launcher starts after all other members.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.allocations.ledger.job_stops import select_agents, stop_waiting_jobs, stop_working_jobs
from gpupool.allocations.ledger.stop_reasons import (
    GANG_REQUEUE_REASONS,
    PREEMPTION_GRACE_SECONDS,
    REQUEUE_REASONS,
)
from gpupool.allocations.store.tables import allocations, gangs, jobs
from gpupool.model.allocation import AllocationState
from gpupool.model.job import ENDED, JobState
from gpupool.store.database import WriteTransaction

Row = sa.Row[Any]

#: Members of a gang in one transaction: about 1,000 rows where they are stopped, 250 where they are
#: written, which takes 11 ms of a processor. What concerns more members is done part by part
#: (decision 0025).
MEMBERS_AT_ONCE = 250

#: Value of `gangs.ending`: a member is done, so only the waiting members of a large gang end.
REST = "rest"

# Each report of a member runs these: they read their entries of the index `ix_jobs_gang_member`,
# never the whole gang, which may have 10,000 members.
_ENDED_MEMBER = (
    sa.select(jobs.c.id)
    .where(jobs.c.gang_id == sa.bindparam("gang"), jobs.c.state.in_(ENDED))
    .limit(1)
)

_WAITING_MEMBERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"),
    jobs.c.state == JobState.PENDING,
    jobs.c.id != sa.bindparam("but"),
)

_WORKING_MEMBERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"),
    jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)),
    jobs.c.id != sa.bindparam("but"),
)

_STARTING_WORKER = (
    sa.select(jobs.c.id)
    .where(
        jobs.c.gang_id == sa.bindparam("gang"),
        jobs.c.state == JobState.STARTING,
        jobs.c.launcher.is_(False),
    )
    .limit(1)
)

_STARTING_LAUNCHERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"),
    jobs.c.state == JobState.STARTING,
    jobs.c.launcher.is_(True),
)

_END_WHOLE = (
    gangs.update()
    .where(gangs.c.id == sa.bindparam("gang"))
    .values(
        # A gang that ends gets no further members; with `missing` it would be removed instead.
        missing=0,
        ending=sa.func.coalesce(
            sa.func.nullif(gangs.c.ending, REST), sa.bindparam("why", type_=sa.String)
        ),
        ending_grace_s=sa.func.coalesce(
            sa.bindparam("grace", type_=sa.Integer), gangs.c.ending_grace_s
        ),
    )
)


def list_gang_members(write: WriteTransaction, job_ids: Collection[int]) -> list[int]:
    """List these jobs and, of those in a gang, all its live members."""
    mine = sa.select(jobs.c.gang_id).where(jobs.c.id.in_(job_ids), jobs.c.gang_id.is_not(None))
    query = sa.select(jobs.c.id).where(jobs.c.gang_id.in_(mine), jobs.c.state.not_in(ENDED))
    return list(dict.fromkeys([*job_ids, *write.execute(query).scalars()]))


def can_wait_again(write: WriteTransaction, row: Row) -> bool:
    """Return whether the job can wait again: no member is done, and no end was requested.

    The end of one member is requested of all, so the job's own row answers for the gang.
    """
    if row.gang_id is None:
        return True
    if is_end_requested(row):
        return False
    return write.execute(_ENDED_MEMBER, {"gang": row.gang_id}).first() is None


def is_end_requested(row: Row) -> bool:
    """Return whether the end of the job or of its gang was requested, not only a requeue."""
    return is_gang_ending(row.ending) or (
        row.stop_requested is not None and row.stop_requested not in REQUEUE_REASONS
    )


def is_gang_ending(ending: str | None) -> bool:
    """Return whether a gang with this `ending` column ends, which happens part by part."""
    return ending is not None and ending != REST


def mark_gang_ending(write: WriteTransaction, gang: int, why: str, grace_s: int | None) -> None:
    """Mark that all of the gang is to end. The caller stops its members. Idempotent.

    The first reason stays, the latest grace applies.
    """
    write.execute(_END_WHOLE, {"gang": gang, "why": why, "grace": grace_s})


def regroup_members(write: WriteTransaction, row: Row) -> list[str]:
    """Stop the other members of a gang of which one is requeued, to wait with it.

    Returns:
        Public ids of the members whose end was requested.
    """
    if row.gang_id is None or row.stop_requested in GANG_REQUEUE_REASONS:
        return []
    others = (
        write.execute(_WORKING_MEMBERS, {"gang": row.gang_id, "but": row.job_id}).scalars().all()
    )
    return stop_working_jobs(write, others, "regrouped", PREEMPTION_GRACE_SECONDS)


class MemberEndEffects(NamedTuple):
    """What the end of a member means for the others."""

    #: Public ids of working members whose end was requested.
    leaving: Sequence[str] = ()
    #: Public ids of waiting members that were stopped.
    dequeued: Sequence[str] = ()
    #: Whether the members are too many for one transaction. The gang's row is marked instead, so
    #: that a server that is killed here leaves work that the next one finds.
    unsettled: bool = False


def apply_member_end(write: WriteTransaction, row: Row, state: JobState) -> MemberEndEffects:
    """Stop the members that cannot go on after the end of one. Idempotent.

    Args:
        write: The transaction; the caller commits it.
        row: The job that ended, with its gang's `ending`.
        state: Its last state.
    """
    if row.gang_id is None or is_gang_ending(row.ending):
        return MemberEndEffects()
    gang = {"gang": row.gang_id, "but": row.job_id}
    waiting = write.execute(_WAITING_MEMBERS, gang).scalars().all()
    if is_end_requested(row):
        # The end of one member is requested of all, so the working ones leave already.
        return MemberEndEffects(dequeued=stop_waiting_jobs(write, waiting, "gang"))
    if state is JobState.DONE and not row.launcher:
        # The report of its end may be the first one of it: its start was then never reported, and
        # a launcher may still wait for it.
        release_launchers(write, row.gang_id)
        if len(waiting) > MEMBERS_AT_ONCE:
            mark_gang_ending(write, row.gang_id, REST, None)
            return MemberEndEffects(unsettled=True)
        return MemberEndEffects(dequeued=stop_waiting_jobs(write, waiting, "gang"))
    why = "launcher" if state is JobState.DONE else "gang"
    working = write.execute(_WORKING_MEMBERS, gang).scalars().all()
    if len(waiting) + len(working) > MEMBERS_AT_ONCE:
        mark_gang_ending(write, row.gang_id, why, None)
        return MemberEndEffects(unsettled=True)
    return MemberEndEffects(
        stop_working_jobs(write, working, why, None), stop_waiting_jobs(write, waiting, why)
    )


def release_launchers(write: WriteTransaction, gang_id: int | None) -> None:
    """Let a gang's launchers start once no other member is starting."""
    if gang_id is None:
        return
    gang = {"gang": gang_id}
    if write.execute(_STARTING_WORKER, gang).first() is not None:
        return
    launchers = write.execute(_STARTING_LAUNCHERS, gang).scalars().all()
    if not launchers:
        return
    theirs = sa.and_(
        allocations.c.job_id.in_(launchers),
        allocations.c.held_back,
        allocations.c.state != AllocationState.RELEASED,
    )
    agents = write.execute(select_agents(theirs)).scalars().all()
    if agents:
        # A new `work_seq` puts the allocations behind the agents' cursors again.
        write.execute(
            allocations.update()
            .where(theirs)
            .values(held_back=False, work_seq=write.touch_ledger())
        )
        write.announce(*(("node", agent) for agent in agents))
