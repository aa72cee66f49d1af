"""What nodes tell of their allocations, and what is asked of them: start, stop, done.

Reports may come twice, late, or from before a crash: each names its allocation's
generation, and one that changes nothing is an ordinary outcome.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations import together
from gpupool.allocations.arrays.ending import count_ended
from gpupool.allocations.ledger import give_back
from gpupool.allocations.notes import Granted
from gpupool.allocations.tables import allocations, claims, gangs, jobs, launches
from gpupool.allocations.together import LOST_TIMES, SENT_BACK, STOP_REASONS
from gpupool.allocations.waiting import Queued, Seconds, by_limit, read_waiting
from gpupool.fleet.service import Fleet
from gpupool.fleet.tables import nodes
from gpupool.metering.service import Metering
from gpupool.model.allocation import AllocationState
from gpupool.model.deadlines import START_SECONDS
from gpupool.model.job import ENDED, JobState, may
from gpupool.store.database import Write
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
        claims.c.preemptible,
        claims.c.requeue,
        gangs.c.ending,
    )
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .where(
        allocations.c.public_id.in_(sa.bindparam("allocations", expanding=True)),
        nodes.c.agent == sa.bindparam("of_agent"),
    )
)
_SET_ALLOCATION = allocations.update().where(allocations.c.id == sa.bindparam("allocation"))
_SET_JOB = jobs.update().where(jobs.c.id == sa.bindparam("job")).values(generation=jobs.c.generation + 1)
_FORGET_LAUNCH = launches.delete().where(launches.c.job_id == sa.bindparam("job"))


@dataclass
class Told:
    """What a batch of reports changed, for the mirror."""

    stale: list[str] = field(default_factory=list)
    granted: Granted = field(default_factory=Granted)
    requeued: list[Queued] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    """Other members of their gangs, asked to end."""
    dequeued: list[str] = field(default_factory=list)
    """Other members of their gangs that need not wait any more."""
    returned: list[str] = field(default_factory=list)
    rerun: dict[int, str] = field(default_factory=dict)
    """Jobs that ran and will run again."""
    done: dict[str, int] = field(default_factory=dict)
    """Seconds that jobs ran which came to their own end."""
    unsettled: list[int] = field(default_factory=list)
    """Gangs whose other members are to be stopped in transactions of their own."""
    used: dict[str, int | None] = field(default_factory=dict)
    """Card memory in use by a job when its new limits came into force."""


def take(
    write: Write,
    metering: Metering,
    fleet: Fleet,
    agent: str,
    reports: Sequence[ReportIn],
    seconds: Seconds = by_limit,
) -> Told:
    """Apply a node's reports in order, in one transaction. `seconds` says how long jobs that wait again will run."""
    told = Told()
    found = _allocations(write, agent, {report.allocation for report in reports})
    release: dict[int, int] = {}
    for report in reports:
        # A report must see what those before it have changed: of its own allocation, and of its gang.
        row = found.pop(report.allocation, None) or _allocations(write, agent, {report.allocation}).get(
            report.allocation
        )
        if row is None or not _is_of(row, report.generation):
            told.stale.append(report.allocation)
            continue
        if row.allocation_state == AllocationState.RELEASED:
            continue
        if report.state in ("prepared", "running"):
            _progress(write, row, report)
        elif report.state == "resized":
            _resized(write, row, report, told)
        elif report.state == "noticed":
            data = {"name": row.name, "found": report.reason}
            kind = "job.unlimited" if report.notice == "host" else f"fence.{report.notice or 'noticed'}"
            write.event(kind, row.job, tenant_id=row.tenant_id, data=data)
        else:
            release[row.allocation_id] = row.tenant_id
            told.returned.append(row.job)
            _ended(write, row, report, told)
            if row.gang_id is not None:
                found = {name: one for name, one in found.items() if one.gang_id != row.gang_id}
    told.granted = give_back(write, metering, fleet, release, told.returned)
    metering.begin_anew(write, list(told.rerun))
    if again := [job for job in told.returned if job not in told.ended]:
        told.requeued = read_waiting(write.connection, again, seconds)
    return told


def _allocations(write: Write, agent: str, wanted: Iterable[str]) -> dict[str, Row]:
    rows = write.execute(_FOUND, {"allocations": list(wanted), "of_agent": agent})
    return {row.allocation: row for row in rows}


def _is_of(row: Row, generation: int) -> bool:
    """The present generation, or an earlier one since it runs: what was told before a resize was heard of."""
    applied = row.applied_generation
    return bool(generation == row.generation or (applied is not None and applied <= generation < row.generation))


def _resized(write: Write, row: Row, report: ReportIn, told: Told) -> None:
    """The limits of that generation are in force."""
    told.used[row.job] = report.gpu_memory_bytes
    if (row.applied_generation or 0) < report.generation:
        write.execute(_SET_ALLOCATION, {"allocation": row.allocation_id, "applied_generation": report.generation})
        _set_job(write, row, {})


def _progress(write: Write, row: Row, report: ReportIn) -> None:
    """The node has prepared the allocation, or the command runs."""
    values: dict[str, Any] = {
        "fence": report.fence,
        "fence_why": report.fence_why,
        "attach_socket": report.attach_socket,
    }
    if row.allocation_state == AllocationState.GRANTED:
        values["state"] = AllocationState.PREPARED
    if row.applied_generation is None and report.state == "running":
        values["applied_generation"] = report.generation
    write.execute(_SET_ALLOCATION, {"allocation": row.allocation_id, **values})
    new = JobState.RUNNING if report.state == "running" else JobState.STARTING
    if row.state == new or not may(JobState(row.state), new):
        if report.state == "prepared" and row.state == JobState.STARTING:
            _set_job(write, row, {})
        return
    _set_job(write, row, {"state": new, "started_ns": _in_ledger_time(write, row, report.started_ns or write.now_ns)})
    write.event("job.running", row.job, tenant_id=row.tenant_id, data={"name": row.name})
    if not row.launcher:
        together.release_launchers(write, row.gang_id)


def _in_ledger_time(write: Write, row: Row, node_ns: int) -> int:
    """An instant by the node's clock, which may be set back or simply differ: never outside what the ledger knows."""
    granted_ns: int = row.granted_ns
    return max(granted_ns, min(node_ns, write.now_ns))


def _ended(write: Write, row: Row, report: ReportIn, told: Told) -> None:
    """Nothing of the allocation is left on its node."""
    if row.state in ENDED:
        return
    if _waits_again(write, row, report):
        _requeue(write, row, report, told)
        return
    # A stop that came after the command's own end, as when its node could not report for a while, ended nothing.
    state, reason = verdict(None if _ended_by_itself(row, report) else row.stop_requested, report)
    _set_job(
        write,
        row,
        {
            "state": state,
            "reason": reason[:400],
            "ended_ns": write.now_ns,
            "exit_code": report.exit_code,
            "signal": report.signal,
            "cpu_milliseconds": report.cpu_milliseconds,
            "max_rss_bytes": report.max_rss_bytes,
            # A job may be over before anybody heard that it ran.
            **({"started_ns": _in_ledger_time(write, row, report.started_ns)} if report.started_ns else {}),
        },
    )
    write.execute(_FORGET_LAUNCH, {"job": row.job_id})
    if row.array_id is not None:
        count_ended(write, row.array_id, {state: 1})
    data = {"name": row.name, "state": str(state), "reason": reason, "exit_code": report.exit_code}
    write.event("job.ended", row.job, tenant_id=row.tenant_id, data=data)
    told.ended.append(row.job)
    if state is JobState.DONE and (began := report.started_ns or row.started_ns):
        told.done[row.job] = (write.now_ns - _in_ledger_time(write, row, began)) // 10**9
    others = together.end_gang(write, row, state)
    if row.gang_id is not None:
        together.forget_launches(write, [row.gang_id])
    if others.unsettled:
        told.unsettled.append(row.gang_id)
    told.leaving += others.leaving
    told.dequeued += others.gone
    told.ended += others.gone


def _waits_again(write: Write, row: Row, report: ReportIn) -> bool:
    """It never ran, or was ended to wait again, or was lost and asked for it."""
    if row.stop_requested is None:
        lost = report.state == "lost" and (row.requeue or row.preemptible) and row.preemptions < LOST_TIMES
        again = report.state == "not_started" or lost
    else:
        again = row.stop_requested in SENT_BACK and _was_stopped(report)
    return again and together.may_return(write, row)


def _ended_by_itself(row: Row, report: ReportIn) -> bool:
    if row.stop_requested in SENT_BACK:
        return not _was_stopped(report)
    return report.state == "ended" and report.reason in ("exited", "signalled")


def _was_stopped(report: ReportIn) -> bool:
    """It did not come to its own end before it was asked to."""
    return report.state != "ended" or report.reason == "stopped"


def verdict(stop_requested: str | None, report: ReportIn) -> tuple[JobState, str]:
    """A job's last state and its reason, from how its command ended."""
    if stop_requested is not None:
        return JobState.STOPPED, STOP_REASONS.get(stop_requested, stop_requested)
    if report.state == "lost":
        return JobState.LOST, report.reason or "its supervisor died; how the command ended is unknown"
    if report.reason == "interrupted":
        return JobState.STOPPED, "interrupted (Ctrl-C, twice)"
    if report.reason and report.reason not in ("exited", "signalled"):
        known = {"max_time": "ran longer than its --max-time", "stopped": "stopped on its node"}
        return JobState.FAILED, known.get(report.reason, report.reason)
    if report.signal is not None:
        name = _signal_name(report.signal)
        interrupted = report.signal in (signals.SIGINT, signals.SIGHUP)
        return (JobState.STOPPED, f"interrupted ({name})") if interrupted else (JobState.FAILED, f"killed by {name}")
    if report.exit_code == 0:
        return JobState.DONE, ""
    return JobState.FAILED, f"exit code {report.exit_code}" if report.exit_code is not None else "ended"


def note_saved(write: Write, job: int) -> str:
    """The job's work is saved now, if it runs; its state. Idempotent."""
    state = str(write.execute(sa.select(jobs.c.state).where(jobs.c.id == job)).scalar_one())
    if state == JobState.RUNNING:
        write.execute(_SET_JOB, {"job": job, "saved_ns": write.now_ns})
    return state


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _requeue(write: Write, row: Row, report: ReportIn, told: Told) -> None:
    """The job waits again, where it stood, and with it its gang. How to launch it is kept, and so is its log."""
    ran = row.state == JobState.RUNNING or report.state != "not_started"
    reason = STOP_REASONS.get(row.stop_requested or "", report.reason or "its node could not start it")
    values = {
        "state": JobState.PENDING,
        "reason": reason[:400],
        "stop_requested": None,
        "stop_grace_s": None,
        "leaving_for": None,
        "placed_ns": None,
    }
    _set_job(write, row, {**values, "started_ns": None, "preemptions": row.preemptions + ran})
    if ran:
        told.rerun[row.job_id] = row.job
    data = {"name": row.name, "reason": reason, "ran": ran}
    write.event("job.requeued", row.job, tenant_id=row.tenant_id, data=data)
    told.leaving += together.regroup(write, row)


def _set_job(write: Write, row: Row, values: dict[str, Any]) -> None:
    write.execute(_SET_JOB, {"job": row.job_id, **values})
    write.announce(("job", row.job))


def request_stop(write: Write, job_ids: Sequence[int], why: str, grace_s: int | None) -> tuple[list[str], list[str]]:
    """Ask for the end of live jobs, and of the gangs they are in; those that only wait end at once.

    Public ids of the ones that did, and of those that were asked. A second request changes nothing but the grace.
    """
    return stop_these(write, together.whole_gangs(write, job_ids), why, grace_s)


def stop_these(write: Write, ids: Sequence[int], why: str, grace_s: int | None) -> tuple[list[str], list[str]]:
    """The same of these jobs and no others."""
    query = sa.select(jobs.c.id, jobs.c.public_id, jobs.c.state).where(jobs.c.id.in_(ids), jobs.c.state.not_in(ENDED))
    rows = write.execute(query).all()
    gone = together.stop_waiting(write, [row.id for row in rows if row.state == JobState.PENDING], why)
    asked = together.stop_working(write, [row.id for row in rows if row.state != JobState.PENDING], why, grace_s)
    if why == together.OVERDUE:
        together.told("job.overdue", write, asked, {"state": "starting", "seconds": START_SECONDS})
    write.announce(*(("job", row.public_id) for row in rows))
    return gone, asked
