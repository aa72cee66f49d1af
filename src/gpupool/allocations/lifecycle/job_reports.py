"""Applies the reports of nodes: prepared, running, resized, ended, lost.

A report may arrive twice, late, or from before a crash. Each names the generation of its
allocation, and one that changes nothing is an ordinary outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.ending import count_ended
from gpupool.allocations.cache.pending_jobs import (
    QueueEntry,
    RuntimeEstimate,
    read_waiting_jobs,
    use_limit,
)
from gpupool.allocations.ledger import gang_lifecycle, job_stops
from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.releases import release_allocations
from gpupool.allocations.ledger.stop_reasons import (
    MAX_RESTARTS_AFTER_LOSS,
    REQUEUE_REASONS,
    STOP_REASONS,
)
from gpupool.allocations.lifecycle.job_ends import is_own_end, is_stopped, judge_end
from gpupool.allocations.lifecycle.notices import write_notice
from gpupool.allocations.lifecycle.prepared_columns import build_prepared_columns
from gpupool.allocations.lifecycle.retries import can_retry, fails_as_gang_leaves, retry_job
from gpupool.allocations.lifecycle.suspension import apply_suspension_report
from gpupool.allocations.store.tables import allocations, claims, gangs, jobs, launches
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import nodes
from gpupool.metering.service import MeteringService
from gpupool.model.allocation import AllocationState
from gpupool.model.job import ENDED, JobState, is_job_transition
from gpupool.network.exposing.exposures import delete_exposures
from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import ReportIn

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_FOUND = (
    sa.select(
        allocations.c.id.label("allocation_id"),
        allocations.c.public_id.label("allocation"),
        allocations.c.state.label("allocation_state"),
        allocations.c.generation,
        allocations.c.applied_generation,
        allocations.c.granted_ns,
        jobs.c.id.label("job_id"),
        jobs.c.public_id.label("job"),
        jobs.c.name,
        jobs.c.state,
        jobs.c.attached,
        jobs.c.tenant_id,
        jobs.c.claim_id,
        jobs.c.stop_requested,
        jobs.c.started_ns,
        jobs.c.gang_id,
        jobs.c.array_id,
        jobs.c.launcher,
        jobs.c.preemptions,
        jobs.c.attempt,
        claims.c.retries,
        claims.c.retry_first_s,
        claims.c.retry_most_s,
        claims.c.preemptible,
        claims.c.requeue,
        claims.c.network_id,
        gangs.c.ending,
    )
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .where(
        allocations.c.public_id.in_(sa.bindparam("allocations", expanding=True)),
        # An agent cannot end the jobs of another one, whatever it reports.
        nodes.c.agent == sa.bindparam("of_agent"),
    )
)

_SET_ALLOCATION = allocations.update().where(allocations.c.id == sa.bindparam("allocation"))

_SET_JOB = (
    jobs.update().where(jobs.c.id == sa.bindparam("job")).values(generation=jobs.c.generation + 1)
)
_FORGET_LAUNCH = launches.delete().where(launches.c.job_id == sa.bindparam("job"))


@dataclass
class ReportEffects:
    """What a batch of reports changed, for the cache and the leases."""

    #: Allocations whose reports are of an old generation or of another agent.
    stale: list[str] = field(default_factory=list)
    granted: LedgerChange = field(default_factory=LedgerChange)
    #: Seats of jobs that were suspended.
    emptied: list[LedgerChange] = field(default_factory=list)
    requeued: list[QueueEntry] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    #: Members of the jobs' gangs whose end was requested.
    leaving: list[str] = field(default_factory=list)
    #: Members of the jobs' gangs that were stopped while they waited.
    dequeued: list[str] = field(default_factory=list)
    #: Jobs that hold nothing any more: ended or requeued.
    returned: list[str] = field(default_factory=list)
    #: Public ids by row id of the jobs that ran and will run again.
    rerun: dict[int, str] = field(default_factory=dict)
    #: Runtime in seconds of the jobs that came to their own end.
    done: dict[str, int] = field(default_factory=dict)
    #: Gangs whose other members are to be stopped in transactions of their own.
    unsettled: list[int] = field(default_factory=list)
    #: Bytes of card memory in use by a job when its new limits came into force.
    used: dict[str, int | None] = field(default_factory=dict)


def apply_reports(
    write: WriteTransaction,
    metering: MeteringService,
    fleet: FleetService,
    agent: str,
    reports: Sequence[ReportIn],
    seconds: RuntimeEstimate = use_limit,
) -> ReportEffects:
    """Apply a node's reports in order, in one transaction.

    Args:
        write: The transaction; the caller commits it.
        metering: Closes the intervals of released seats.
        fleet: Settles cards that wait for their last seat.
        agent: The agent that reports; allocations of other agents are stale to it.
        reports: In the order in which the agent sent them.
        seconds: Estimates the runtime of jobs that wait again.
    """
    effects = ReportEffects()
    found = _read_allocations(write, agent, {report.allocation for report in reports})
    release: dict[int, int] = {}
    for report in reports:
        # A report must see what those before it have changed, so a row serves one report; a second
        # report of an allocation reads its row again.
        row = found.pop(report.allocation, None)
        if row is None:
            row = _read_allocations(write, agent, {report.allocation}).get(report.allocation)
        if row is None or not _is_current(row, report.generation):
            effects.stale.append(report.allocation)
            continue
        if row.allocation_state == AllocationState.RELEASED:
            # The same end again: the answer to its first report was lost.
            continue
        if report.state in ("prepared", "running"):
            _apply_progress(write, row, report)
        elif report.state == "resized":
            _apply_resize(write, row, report, effects)
        elif report.state in ("suspended", "resumed", "woken"):
            effects.emptied += apply_suspension_report(write, metering, row, report)
        elif report.state == "noticed":
            write_notice(write, row, report)
        else:
            release[row.allocation_id] = row.tenant_id
            effects.returned.append(row.job)
            _apply_end(write, row, report, effects)
            if row.gang_id is not None:
                # The end may have changed the rows of the other members: they are read again.
                found = {name: one for name, one in found.items() if one.gang_id != row.gang_id}
    # All at once: one update per card and tenant, however many members a gang has.
    effects.granted = release_allocations(write, metering, fleet, release, effects.returned)
    metering.restart_sums(write, list(effects.rerun))
    again = [job for job in effects.returned if job not in effects.ended]
    if again:
        effects.requeued = read_waiting_jobs(write.connection, again, seconds)
    return effects


def _read_allocations(write: WriteTransaction, agent: str, wanted: Iterable[str]) -> dict[str, Row]:
    rows = write.execute(_FOUND, {"allocations": list(wanted), "of_agent": agent})
    return {row.allocation: row for row in rows}


def _is_current(row: Row, generation: int) -> bool:
    # The present generation, or one between the last applied and the present: such a report was
    # made before the agent heard of a resize, and is true all the same.
    applied = row.applied_generation
    return bool(
        generation == row.generation
        or (applied is not None and applied <= generation < row.generation)
    )


def _apply_resize(
    write: WriteTransaction, row: Row, report: ReportIn, effects: ReportEffects
) -> None:
    """Note that the limits of the reported generation are in force."""
    effects.used[row.job] = report.gpu_memory_bytes
    # Reports may come in another order than the resizes: the generation never goes back.
    if (row.applied_generation or 0) < report.generation:
        write.execute(
            _SET_ALLOCATION,
            {"allocation": row.allocation_id, "applied_generation": report.generation},
        )
        _update_job(write, row, {})


def _apply_progress(write: WriteTransaction, row: Row, report: ReportIn) -> None:
    """Note that the node has prepared the allocation, or that the command runs."""
    values = build_prepared_columns(report)
    if row.allocation_state == AllocationState.GRANTED:
        values["state"] = AllocationState.PREPARED
    if row.applied_generation is None and report.state == "running":
        values["applied_generation"] = report.generation
    write.execute(_SET_ALLOCATION, {"allocation": row.allocation_id, **values})
    new = JobState.RUNNING if report.state == "running" else JobState.STARTING
    if row.state == new or not is_job_transition(JobState(row.state), new):
        # A late or repeated report. A prepared job still gets a new generation, because a client
        # waits for its attach socket.
        if report.state == "prepared" and row.state == JobState.STARTING:
            _update_job(write, row, {})
        return
    started_ns = _clamp_to_ledger(write, row, report.started_ns or write.now_ns)
    _update_job(write, row, {"state": new, "started_ns": started_ns})
    write.event("job.running", row.job, tenant_id=row.tenant_id, data={"name": row.name})
    if not row.launcher:
        gang_lifecycle.release_launchers(write, row.gang_id)


def _clamp_to_ledger(write: WriteTransaction, row: Row, node_ns: int) -> int:
    # A node's clock may be set back or differ: a job never starts before its grant or after now.
    granted_ns: int = row.granted_ns
    return max(granted_ns, min(node_ns, write.now_ns))


def _apply_end(write: WriteTransaction, row: Row, report: ReportIn, effects: ReportEffects) -> None:
    """End or requeue a job of whose allocation nothing is left on the node."""
    if row.state in ENDED:
        return
    if _can_wait_again(write, row, report):
        _requeue_job(write, row, report, effects)
        return
    if can_retry(write, row, report):
        effects.leaving += retry_job(write, row, report)
        effects.rerun[row.job_id] = row.job
        return
    if fails_as_gang_leaves(write, row, report):
        _requeue_job(write, row, report, effects)
        return
    # A stop that came after the command's own end ended nothing: its node could not report.
    state, reason = judge_end(
        None if is_own_end(row.stop_requested, report) else row.stop_requested, report
    )
    values: dict[str, Any] = {
        "state": state,
        "reason": reason[:400],
        "ended_ns": write.now_ns,
        "exit_code": report.exit_code,
        "signal": report.signal,
        "cpu_milliseconds": report.cpu_milliseconds,
        "max_rss_bytes": report.max_rss_bytes,
    }
    if report.started_ns:
        # A short job may be over before a report says that it runs.
        values["started_ns"] = _clamp_to_ledger(write, row, report.started_ns)
    _update_job(write, row, values)
    if row.network_id is not None:
        delete_exposures(write, [row.job])
    # The environment in it may hold secrets.
    write.execute(_FORGET_LAUNCH, {"job": row.job_id})
    if row.array_id is not None:
        count_ended(write, row.array_id, {state: 1})
    data = {"name": row.name, "state": str(state), "reason": reason, "exit_code": report.exit_code}
    write.event("job.ended", row.job, tenant_id=row.tenant_id, data=data)
    effects.ended.append(row.job)
    began_ns = report.started_ns or row.started_ns
    # Only a job that came to its own end says how long such jobs run.
    if state is JobState.DONE and began_ns:
        runtime_ns = write.now_ns - _clamp_to_ledger(write, row, began_ns)
        effects.done[row.job] = runtime_ns // NANOS_PER_SECOND
    others = gang_lifecycle.apply_member_end(write, row, state)
    if row.gang_id is not None:
        job_stops.delete_launches(write, [row.gang_id])
    if others.unsettled:
        effects.unsettled.append(row.gang_id)
    effects.leaving += others.leaving
    effects.dequeued += others.dequeued
    effects.ended += others.dequeued


def _can_wait_again(write: WriteTransaction, row: Row, report: ReportIn) -> bool:
    """Whether the job never ran, was ended to wait again, or was lost and asked for it."""
    if row.stop_requested is None:
        lost = (
            report.state == "lost"
            and (row.requeue or row.preemptible)
            and row.preemptions < MAX_RESTARTS_AFTER_LOSS
        )
        again = report.state == "not_started" or lost
    else:
        again = row.stop_requested in REQUEUE_REASONS and is_stopped(report)
    return again and gang_lifecycle.can_wait_again(write, row)


def record_checkpoint(write: WriteTransaction, job: int) -> str:
    """Note that the job has saved its work now, if it runs. Idempotent.

    Returns:
        The job's state.
    """
    state = str(write.execute(sa.select(jobs.c.state).where(jobs.c.id == job)).scalar_one())
    if state == JobState.RUNNING:
        write.execute(_SET_JOB, {"job": job, "saved_ns": write.now_ns})
    return state


def _requeue_job(
    write: WriteTransaction, row: Row, report: ReportIn, effects: ReportEffects
) -> None:
    """Let the job wait again, and its gang with it. Its launch and its log are kept."""
    ran = row.state == JobState.RUNNING or report.state != "not_started"
    fallback = report.reason or "its node could not start it"
    reason = STOP_REASONS.get(row.stop_requested or "", fallback)
    values = {
        "state": JobState.PENDING,
        "reason": reason[:400],
        "stop_requested": None,
        "stop_grace_s": None,
        "leaving_for": None,
        "placed_ns": None,
    }
    _update_job(write, row, {**values, "started_ns": None, "preemptions": row.preemptions + ran})
    if ran:
        # Its counters begin at 0 again on the next node; without a mark the meter would see them
        # fall back.
        effects.rerun[row.job_id] = row.job
    data = {"name": row.name, "reason": reason, "ran": ran}
    write.event("job.requeued", row.job, tenant_id=row.tenant_id, data=data)
    effects.leaving += gang_lifecycle.regroup_members(write, row)


def _update_job(write: WriteTransaction, row: Row, values: dict[str, Any]) -> None:
    write.execute(_SET_JOB, {"job": row.job_id, **values})
    write.announce(("job", row.job))
