"""Evictions in the ledger: victims of preemption, and jobs on cards that are not well."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from gpupool.allocations.ledger.gang_lifecycle import list_gang_members
from gpupool.allocations.ledger.job_stops import stop_working_jobs, write_job_events
from gpupool.allocations.ledger.stop_reasons import PREEMPTION_GRACE_SECONDS, STOP_REASONS
from gpupool.allocations.store.gangs import read_least_members
from gpupool.allocations.store.tables import gangs, jobs
from gpupool.model.job import JobState
from gpupool.scheduling import Eviction
from gpupool.store.database import WriteTransaction
from gpupool.store.tables import events
from gpupool.tenancy.tables import tenants

#: Events at the end of the log that a start searches for evictions. Without a bound a start would
#: read the whole log, which grows for years.
LATEST_EVENTS = 100_000

# Pending jobs hold nothing, ended jobs have nothing to leave: only these can be evicted.
_HOLDS_SEATS = (JobState.STARTING, JobState.RUNNING)


def evict_jobs(
    write: WriteTransaction, evictions: Iterable[Eviction], grace_s: int
) -> dict[str, str]:
    """Request that victims save their work and wait again. Idempotent.

    A gang is evicted as a whole unless enough of its members can go on. Jobs that have ended or
    were asked to end are left out.

    Args:
        write: The transaction; the caller commits it.
        evictions: Victims with their beneficiaries.
        grace_s: Seconds between SIGTERM and SIGKILL.

    Returns:
        The beneficiary of each job that leaves.
    """
    by_victim = {eviction.job: eviction for eviction in evictions}
    if not by_victim:
        return {}
    query = sa.select(jobs.c.id, jobs.c.public_id, jobs.c.gang_id).where(
        jobs.c.public_id.in_(by_victim), jobs.c.state.in_(_HOLDS_SEATS)
    )
    victims = {row.id: row for row in write.execute(query)}
    # Decided before the first stop: a stop changes what `_can_continue_without` counts.
    shrinking = set[int]()
    for gang in {row.gang_id for row in victims.values()}:
        if gang and _can_continue_without(write, gang, list(victims)):
            shrinking.add(gang)
    leaving = dict[str, str]()
    for job_id, row in victims.items():
        eviction = by_victim[row.public_id]
        if row.gang_id in shrinking:
            asked = stop_working_jobs(write, [job_id], "shrunk", grace_s)
        else:
            members = list_gang_members(write, [job_id])
            asked = stop_working_jobs(write, members, "preempted", grace_s)
        # `asked` has only the jobs whose end nobody had requested before: of two victims of one
        # gang the first takes all members, and the beneficiary of the first stays.
        write.execute(
            jobs.update()
            .where(jobs.c.public_id.in_(asked))
            .values(leaving_for=eviction.beneficiary)
        )
        leaving |= dict.fromkeys(asked, eviction.beneficiary)
        data = {
            "for": eviction.beneficiary,
            "lost_seconds": eviction.lost_seconds,
            "why": eviction.why,
        }
        write_job_events("job.preempted", write, asked, data)
    return leaving


def _can_continue_without(write: WriteTransaction, gang: int, without: Collection[int]) -> bool:
    """Whether as many members of each role as the gang needs work on without these."""
    spec = write.execute(sa.select(gangs.c.spec).where(gangs.c.id == gang)).scalar_one()
    stay = (
        sa.select(jobs.c.gang_role, sa.func.count().label("members"))
        .where(jobs.c.gang_id == gang, jobs.c.id.not_in(without), jobs.c.stop_requested.is_(None))
        .where(jobs.c.state.in_(_HOLDS_SEATS))
        .group_by(jobs.c.gang_role)
    )
    counts = {row.gang_role: row.members for row in write.execute(stay)}
    # A gang of which every role may shrink to 0 still needs a member to go on.
    if not counts:
        return False
    needed = read_least_members(spec)
    return all(counts.get(role, 0) >= least for role, least in needed.items())


def recover_jobs(write: WriteTransaction, names: Collection[str]) -> list[str]:
    """Request that jobs on cards that are not well, and their gangs, wait again for other cards.

    Returns:
        Public ids of the jobs whose end was requested.
    """
    ids = list(write.execute(sa.select(jobs.c.id).where(jobs.c.public_id.in_(names))).scalars())
    asked = stop_working_jobs(
        write, list_gang_members(write, ids), "recovered", PREEMPTION_GRACE_SECONDS
    )
    write_job_events("job.recovered", write, asked, {"why": STOP_REASONS["recovered"]})
    return asked


def read_recent_evictions(connection: sa.Connection) -> list[tuple[int, str]]:
    """Read the instant and the tenant of recent evictions, oldest first.

    Only the latest `LATEST_EVENTS` events are searched.
    """
    last = sa.select(sa.func.max(events.c.seq)).scalar_subquery()
    query = (
        sa.select(events.c.at_ns, events.c.data, tenants.c.name)
        .join(tenants, tenants.c.id == events.c.tenant_id)
        .where(events.c.seq > last - LATEST_EVENTS, events.c.kind == "job.preempted")
        .order_by(events.c.seq)
    )
    # A spent budget ends jobs under the same kind, for no claim: no plan has evicted them.
    return [(row.at_ns, row.name) for row in connection.execute(query) if row.data.get("for")]
