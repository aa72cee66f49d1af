"""What one job's lot means for the jobs around it: gangs end and return as a whole, launchers start last.

The policy, in one place. A gang ends when a member fails, is lost, is stopped, or when its launcher is done: whoever
still runs is stopped. A member that must wait again (preempted, its card lost) takes all others with it, and the gang
starts anew as a whole; once a member is done that cannot be, and the gang ends. A member that is done ends nobody, but
members that had not started yet are not started any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.allocations.arrays.ending import count_ended
from gpupool.allocations.gangs import least_members
from gpupool.allocations.tables import IS_LIVE, allocations, gangs, jobs, launches
from gpupool.fleet.tables import nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.deadlines import START_SECONDS
from gpupool.model.job import ENDED, JobState
from gpupool.scheduling.snapshot import Eviction
from gpupool.store.database import Write
from gpupool.store.tables import events
from gpupool.tenancy.tables import tenants

Row = sa.Row[Any]

OVERDUE = "overdue"

STOP_REASONS = {
    "user": "stopped by its user",
    "admin": "stopped by an administrator",
    OVERDUE: f"its node did not start it within {START_SECONDS} s",
    "lease": "its client went away and did not come back in time",
    "down": "stopped with the pool",
    "gang": "its gang ended with another member",
    "launcher": "its gang's launcher is done",
    "preempted": "preempted for a claim of higher priority",
    "recovered": "its card or node is not well",
    "moved": "moved to other cards",
    "regrouped": "another member of its gang has to wait again",
    "shrunk": "preempted; its gang goes on without it",
}
SENT_BACK = frozenset({"preempted", "recovered", "regrouped", "moved", "shrunk"})
"""Reasons for a stop after which the job waits again."""
_SENT_BACK_WHOLE = SENT_BACK - {"moved"}
"""Those that are asked of all members of a gang at once, or of one that the others can do without."""
LOST_TIMES = 3
"""So often a job that asked for it starts again after it was lost: what kills its supervisor each time is its own."""
PREEMPTION_GRACE_SECONDS = 30

MEMBERS_AT_ONCE = 250
"""Members of a gang in one transaction: about 1,000 rows where they are stopped, 250 where they are written, which
takes 11 ms of a processor. What concerns more members is done part by part (decision 0025)."""
REST = "rest"
"""Why members of a large gang are to end of which only those that wait are: another one is done."""

LATEST_EVENTS = 100_000

# Each report of a member asks these: they read the entries of the index that they are about, never the whole gang.
_ENDED_MEMBER = sa.select(jobs.c.id).where(jobs.c.gang_id == sa.bindparam("gang"), jobs.c.state.in_(ENDED)).limit(1)
_WAITING_MEMBERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"), jobs.c.state == JobState.PENDING, jobs.c.id != sa.bindparam("but")
)
_WORKING_MEMBERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"),
    jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)),
    jobs.c.id != sa.bindparam("but"),
)
_STARTING_WORKER = (
    sa.select(jobs.c.id)
    .where(jobs.c.gang_id == sa.bindparam("gang"), jobs.c.state == JobState.STARTING, jobs.c.launcher.is_(False))
    .limit(1)
)
_STARTING_LAUNCHERS = sa.select(jobs.c.id).where(
    jobs.c.gang_id == sa.bindparam("gang"), jobs.c.state == JobState.STARTING, jobs.c.launcher.is_(True)
)

_END_WHOLE = (
    gangs.update()
    .where(gangs.c.id == sa.bindparam("gang"))
    .values(
        missing=0,
        ending=sa.func.coalesce(sa.func.nullif(gangs.c.ending, REST), sa.bindparam("why", type_=sa.String)),
        ending_grace_s=sa.func.coalesce(sa.bindparam("grace", type_=sa.Integer), gangs.c.ending_grace_s),
    )
)

_FORGET_LAUNCH = (
    gangs.update()
    .where(
        gangs.c.id == sa.bindparam("gang"),
        gangs.c.launch.is_not(None),
        ~sa.exists().where(jobs.c.gang_id == gangs.c.id, IS_LIVE),
    )
    .values(launch=sa.null())
)


def whole_gangs(write: Write, job_ids: Collection[int]) -> list[int]:
    """These jobs and, of those in a gang, all its live members."""
    mine = sa.select(jobs.c.gang_id).where(jobs.c.id.in_(job_ids), jobs.c.gang_id.is_not(None))
    query = sa.select(jobs.c.id).where(jobs.c.gang_id.in_(mine), jobs.c.state.not_in(ENDED))
    return list(dict.fromkeys([*job_ids, *write.execute(query).scalars()]))


def may_return(write: Write, row: Row) -> bool:
    """Whether the job can wait again: of a gang nobody is done and nobody's end was asked for.

    Who asks for the end of a member asks for that of all, so the job's own row tells of theirs.
    """
    if row.gang_id is None:
        return True
    if is_to_end(row):
        return False
    return write.execute(_ENDED_MEMBER, {"gang": row.gang_id}).first() is None


def is_to_end(row: Row) -> bool:
    """Whether the job's end, or that of all of its gang, was asked for, and not only that it waits again."""
    return is_ending(row.ending) or (row.stop_requested is not None and row.stop_requested not in SENT_BACK)


def is_ending(ending: str | None) -> bool:
    """Whether all members of a gang with that column are to end; they are asked part by part."""
    return ending is not None and ending != REST


def end_whole(write: Write, gang: int, why: str, grace_s: int | None) -> None:
    """Say that all of the gang is to end; asking its members is the caller's. Idempotent.

    The first reason stays, the latest grace holds.
    """
    write.execute(_END_WHOLE, {"gang": gang, "why": why, "grace": grace_s})


def regroup(write: Write, row: Row) -> list[str]:
    """Another member waits again: the others are stopped to wait with it. Who is asked to leave."""
    if row.gang_id is None or row.stop_requested in _SENT_BACK_WHOLE:
        return []
    others = write.execute(_WORKING_MEMBERS, {"gang": row.gang_id, "but": row.job_id}).scalars().all()
    return stop_working(write, others, "regrouped", PREEMPTION_GRACE_SECONDS)


class Ends(NamedTuple):
    """What the end of a member means for the others."""

    leaving: Sequence[str] = ()
    """Asked to leave."""
    gone: Sequence[str] = ()
    """Need not wait any more."""
    unsettled: bool = False
    """They are too many for one transaction: the gang's row says what is to become of them."""


def end_gang(write: Write, row: Row, state: JobState) -> Ends:
    """What the end of a member means for the others: who is asked to leave, and who need not wait any more."""
    if row.gang_id is None or is_ending(row.ending):
        return Ends()
    gang = {"gang": row.gang_id, "but": row.job_id}
    waiting = write.execute(_WAITING_MEMBERS, gang).scalars().all()
    if is_to_end(row):  # with it, all others that work were asked
        return Ends(gone=stop_waiting(write, waiting, "gang"))
    if state is JobState.DONE and not row.launcher:
        release_launchers(write, row.gang_id)  # its end may be the first that is heard of it
        if len(waiting) > MEMBERS_AT_ONCE:
            end_whole(write, row.gang_id, REST, None)
            return Ends(unsettled=True)
        return Ends(gone=stop_waiting(write, waiting, "gang"))
    why = "launcher" if state is JobState.DONE else "gang"
    working = write.execute(_WORKING_MEMBERS, gang).scalars().all()
    if len(waiting) + len(working) > MEMBERS_AT_ONCE:
        end_whole(write, row.gang_id, why, None)
        return Ends(unsettled=True)
    return Ends(stop_working(write, working, why, None), stop_waiting(write, waiting, why))


def evict(write: Write, evictions: Iterable[Eviction], grace_s: int) -> dict[str, str]:
    """Ask these jobs, and gangs that cannot do without them, to save their work and wait again; for whom each leaves.

    One that has ended or was asked to end meanwhile is left out. Idempotent.
    """
    wanted = {one.job: one for one in evictions}
    if not wanted:
        return {}
    query = sa.select(jobs.c.id, jobs.c.public_id, jobs.c.gang_id).where(
        jobs.c.public_id.in_(wanted), jobs.c.state.in_((JobState.STARTING, JobState.RUNNING))
    )
    ids = {row.id: row for row in write.execute(query)}
    gone_on = {gang for gang in {row.gang_id for row in ids.values()} if gang and _goes_on(write, gang, list(ids))}
    leaving = dict[str, str]()
    for job_id, row in ids.items():
        one = wanted[row.public_id]
        if row.gang_id in gone_on:
            asked = stop_working(write, [job_id], "shrunk", grace_s)
        else:
            asked = stop_working(write, whole_gangs(write, [job_id]), "preempted", grace_s)
        write.execute(jobs.update().where(jobs.c.public_id.in_(asked)).values(leaving_for=one.beneficiary))
        leaving |= dict.fromkeys(asked, one.beneficiary)
        told("job.preempted", write, asked, {"for": one.beneficiary, "lost_seconds": one.lost_seconds, "why": one.why})
    return leaving


def _goes_on(write: Write, gang: int, without: Collection[int]) -> bool:
    """Whether as many members of each role as the gang needs work on without these."""
    spec = write.execute(sa.select(gangs.c.spec).where(gangs.c.id == gang)).scalar_one()
    stay = (
        sa.select(jobs.c.gang_role, sa.func.count().label("members"))
        .where(jobs.c.gang_id == gang, jobs.c.id.not_in(without), jobs.c.stop_requested.is_(None))
        .where(jobs.c.state.in_((JobState.STARTING, JobState.RUNNING)))
        .group_by(jobs.c.gang_role)
    )
    counts = {row.gang_role: row.members for row in write.execute(stay)}
    return bool(counts) and all(counts.get(role, 0) >= least for role, least in least_members(spec).items())


def send_elsewhere(write: Write, names: Collection[str]) -> list[str]:
    """Ask jobs on cards that are not well, and their gangs, to wait again for other cards; who was asked."""
    ids = list(write.execute(sa.select(jobs.c.id).where(jobs.c.public_id.in_(names))).scalars())
    asked = stop_working(write, whole_gangs(write, ids), "recovered", PREEMPTION_GRACE_SECONDS)
    told("job.recovered", write, asked, {"why": STOP_REASONS["recovered"]})
    return asked


def release_launchers(write: Write, gang_id: int | None) -> None:
    """Let a gang's launchers start when nobody else of it is still starting."""
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
    agents = write.execute(_agents(theirs)).scalars().all()
    if agents:
        write.execute(allocations.update().where(theirs).values(held_back=False, work_seq=write.touch_ledger()))
        write.announce(*(("node", agent) for agent in agents))


def stop_waiting(write: Write, job_ids: Sequence[int], why: str) -> list[str]:
    """End jobs that only wait; their public ids."""
    if not job_ids:
        return []
    rows = write.execute(sa.select(jobs).where(jobs.c.id.in_(job_ids))).all()
    reason = STOP_REASONS.get(why, why)
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
    for array, count in Counter(row.array_id for row in rows if row.array_id is not None).items():
        count_ended(write, array, {JobState.STOPPED: count})
    forget_launches(write, {row.gang_id for row in rows if row.gang_id is not None})
    for row in rows:
        data = {"name": row.name, "state": "stopped", "reason": reason}
        write.event("job.ended", row.public_id, tenant_id=row.tenant_id, data=data)
    write.announce("queue", *(("job", row.public_id) for row in rows))
    return [row.public_id for row in rows]


def forget_launches(write: Write, gang_ids: Iterable[int]) -> None:
    """Of gangs whose last member has ended: how to start them, which may hold secrets."""
    for gang in gang_ids:
        write.execute(_FORGET_LAUNCH, {"gang": gang})


def stop_working(write: Write, job_ids: Sequence[int], why: str, grace_s: int | None) -> list[str]:
    """Ask for the end of those that hold seats; public ids of those that were not asked before.

    Members of a gang that wait are left to wait. Who was to wait again and is now to end, ends; else a first reason
    stays.
    """
    if not job_ids:
        return []
    weaker = [None] if why in SENT_BACK else [None, *SENT_BACK]
    unasked = sa.or_(*(jobs.c.stop_requested == one for one in weaker))
    works = jobs.c.state.in_((JobState.STARTING, JobState.RUNNING))
    first = write.execute(sa.select(jobs.c.id, jobs.c.public_id).where(jobs.c.id.in_(job_ids), works, unasked)).all()
    write.execute(
        jobs.update()
        .where(jobs.c.id.in_([row.id for row in first]))
        .values(stop_requested=why, generation=jobs.c.generation + 1)
    )
    if grace_s is not None:
        write.execute(jobs.update().where(jobs.c.id.in_(job_ids)).values(stop_grace_s=grace_s))
    held = sa.and_(allocations.c.job_id.in_(job_ids), allocations.c.state != AllocationState.RELEASED)
    write.execute(
        allocations.update()
        .where(held)
        .values(state=AllocationState.RELEASING, held_back=False, work_seq=write.touch_ledger())
    )
    write.announce(*(("node", agent) for agent in write.execute(_agents(held)).scalars()))
    write.announce(*(("job", row.public_id) for row in first))
    return [row.public_id for row in first]


def _agents(held: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    return sa.select(nodes.c.agent).join(allocations, allocations.c.node_id == nodes.c.id).where(held).distinct()


def told(kind: str, write: Write, names: Collection[str], data: dict[str, Any]) -> None:
    """An event for each of these jobs."""
    query = sa.select(jobs.c.public_id, jobs.c.name, jobs.c.tenant_id).where(jobs.c.public_id.in_(names))
    for row in write.execute(query.order_by(jobs.c.id)).all():
        write.event(kind, row.public_id, tenant_id=row.tenant_id, data={"name": row.name, **data})


def latest_evictions(connection: sa.Connection) -> list[tuple[int, str]]:
    """When jobs of which tenants were preempted, oldest first, as far back as the latest events go."""
    last = sa.select(sa.func.max(events.c.seq)).scalar_subquery()
    query = (
        sa.select(events.c.at_ns, tenants.c.name)
        .join(tenants, tenants.c.id == events.c.tenant_id)
        .where(events.c.seq > last - LATEST_EVENTS, events.c.kind == "job.preempted")
        .order_by(events.c.seq)
    )
    return [(row.at_ns, row.name) for row in connection.execute(query)]
