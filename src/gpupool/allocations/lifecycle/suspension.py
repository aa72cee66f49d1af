"""Suspends a running job and resumes it: the wish, and what its node says became of it.

A suspended job holds nothing of its cards: its seats stay in the ledger with the size 0, and other
claims get what was in them. They are emptied when the node has said that the memory is off the
cards, and filled before the node is asked to bring it back, in the same transaction that checks the
room. So the seats are never smaller than what the job has on its cards. A resume waits for nothing:
without room it is refused (decision 0061).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.resizes import SeatResize, resize_allocation
from gpupool.allocations.ledger.running_jobs import read_holders
from gpupool.allocations.lifecycle.resize import READ_SEATS
from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.allocations.lifecycle.suspension_checks import check_kind, check_lives, check_room
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import WrongState
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import nodes
from gpupool.metering.service import MeteringService
from gpupool.model.suspension import IDLE_RULE, TRANSITIONS, SuspensionState
from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import ReportIn

Row = sa.Row[Any]

_HELD = (
    sa.select(
        jobs.c.id,
        jobs.c.public_id,
        jobs.c.name,
        jobs.c.state,
        jobs.c.stop_requested,
        jobs.c.tenant_id,
        jobs.c.gang_id,
        allocations.c.id.label("allocation_id"),
        allocations.c.state.label("allocation_state"),
        allocations.c.applied_generation,
        allocations.c.generation,
        suspensions.c.state.label("suspension"),
        suspensions.c.gpu_milli,
        suspensions.c.memory_bytes,
        suspensions.c.beneficiary,
        nodes.c.agent,
    )
    .select_from(jobs)
    .outerjoin(
        allocations,
        sa.and_(
            allocations.c.job_id == jobs.c.id,
            allocations.c.state != sa.literal_column("'released'"),
        ),
    )
    .outerjoin(nodes, nodes.c.id == allocations.c.node_id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(jobs.c.id == sa.bindparam("job"))
)
_READ = sa.select(suspensions).where(suspensions.c.allocation_id == sa.bindparam("allocation"))
_SET = suspensions.update().where(suspensions.c.allocation_id == sa.bindparam("allocation"))
_FORGET = suspensions.delete().where(suspensions.c.allocation_id == sa.bindparam("allocation"))
_SET_ALLOCATION = allocations.update().where(allocations.c.id == sa.bindparam("allocation"))
_TOUCH_JOB = (
    jobs.update().where(jobs.c.id == sa.bindparam("job")).values(generation=jobs.c.generation + 1)
)


def suspend_job(
    write: WriteTransaction, job_id: int, beneficiary: str | None = None
) -> LedgerChange | None:
    """Ask the job's node to move its memory to the host. Idempotent.

    Args:
        write: The transaction; the caller commits it.
        job_id: Row id.
        beneficiary: The claim that needs the room, because the job is idle; the job comes back by
            itself then. `IDLE_RULE`: no claim, an idle policy. None: by hand, also for a job that
            was suspended because it was idle.

    Returns:
        What the cache has to know; None for a job that is suspended or on the way there.

    Raises:
        WrongState: The job does not run, or is being resumed or resized.
        RequestRejection: No driver can suspend a job of its kind.
    """
    job = write.execute(_HELD, {"job": job_id}).one()
    check_lives(job, "suspended")
    if job.suspension in (SuspensionState.SUSPENDING, SuspensionState.SUSPENDED):
        if beneficiary is None and job.beneficiary is not None:
            write.execute(_SET.values(beneficiary=None), {"allocation": job.allocation_id})
            return _read_change(write, job.public_id)
        return None
    if job.suspension == SuspensionState.RESUMING:
        raise WrongState(f"job {job.name} is being resumed", hint="try again in a moment")
    if job.applied_generation != job.generation:
        # Its node would never hear of the size.
        raise WrongState(
            f"the node of job {job.name} has not applied its last resize yet",
            hint="try again in a moment",
        )
    check_kind(job, write.execute(READ_SEATS, {"allocation": job.allocation_id}).all())
    sequence = write.touch_ledger()
    work = {"generation": sequence, "work_seq": sequence}
    write.execute(_SET_ALLOCATION, {"allocation": job.allocation_id, **work})
    _write_state(
        write,
        job.allocation_id,
        SuspensionState.SUSPENDING,
        beneficiary=beneficiary,
        since_ns=None,
        wanted_ns=None,
    )
    _announce(write, job)
    return _read_change(write, job.public_id)


def resume_job(
    write: WriteTransaction, metering: MeteringService, job_id: int, beside: JobResizeHeadroom
) -> LedgerChange | None:
    """Fill the job's seats again and ask its node to bring its memory back. Idempotent.

    Args:
        write: The transaction; the caller commits it.
        metering: Splits the intervals of the seats.
        job_id: Row id.
        beside: What is held for others; placement must pause.

    Returns:
        What changed; None for a job that runs or is on the way there.

    Raises:
        WrongState: The job does not live, or is being suspended.
        RequestRejection: The cards or the quotas have too little; nothing is written.
    """
    job = write.execute(_HELD, {"job": job_id}).one()
    check_lives(job, "resumed")
    if job.suspension == SuspensionState.SUSPENDING:
        raise WrongState(f"job {job.name} is being suspended", hint="try again in a moment")
    if job.suspension != SuspensionState.SUSPENDED:
        return None
    taken = write.execute(READ_SEATS, {"allocation": job.allocation_id}).all()
    changes = _build_changes(taken, job.gpu_milli, job.memory_bytes)
    check_room(job, taken, changes, beside)
    granted = resize_allocation(
        write, metering, job.public_id, job.allocation_id, job.tenant_id, changes
    )
    _write_state(write, job.allocation_id, SuspensionState.RESUMING)
    _announce(write, job)
    # With the state above: in the cache its seats are never full and kept for it as well.
    return replace(granted, held=_read_change(write, job.public_id).held)


def apply_suspension_report(
    write: WriteTransaction, metering: MeteringService, row: Row, report: ReportIn
) -> list[LedgerChange]:
    """Take in where a node has the memory of a job. A repeated or late report changes nothing.

    Args:
        write: The transaction; the caller commits it.
        metering: Splits the intervals of the seats.
        row: The allocation and its job, as `job_reports` reads them.
        report: In state `suspended` or `resumed`.

    Returns:
        What changed in the ledger; at most one change.
    """
    if report.generation != row.generation:
        return []
    if report.state == "woken":
        return [_read_change(write, row.job)] if _note_wake(write, row) else []
    applied = {"allocation": row.allocation_id, "applied_generation": report.generation}
    write.execute(_SET_ALLOCATION, applied)
    known = write.execute(_READ, {"allocation": row.allocation_id}).one_or_none()
    if known is None:
        return []
    state = _find_state(SuspensionState(known.state), report)
    if state not in TRANSITIONS[SuspensionState(known.state)]:
        return []
    changes = list[LedgerChange]()
    if state is SuspensionState.SUSPENDED:
        changes.append(_empty_seats(write, metering, row, report, known))
    elif state is not None:
        _write_state(write, row.allocation_id, state, note=report.reason[:400])
    else:
        write.execute(_FORGET, {"allocation": row.allocation_id})
    _write_event(write, row, report, known)
    write.execute(_TOUCH_JOB, {"job": row.job_id})
    write.announce(("job", row.job))
    # With the state above: a plan sees empty seats only with what is kept for the job.
    held = _read_change(write, row.job).held
    return [replace(change, held=held) for change in changes or [LedgerChange()]]


def _read_change(write: WriteTransaction, job: str) -> LedgerChange:
    """Read how far a job is suspended, for the cache."""
    return LedgerChange(held=tuple(read_holders(write.connection, [job])))


def _note_wake(write: WriteTransaction, row: Row) -> bool:
    """Note since when a program of a suspended job waits to work again. Idempotent.

    Returns:
        Whether it was noted now.
    """
    asleep = sa.and_(
        suspensions.c.state == SuspensionState.SUSPENDED, suspensions.c.wanted_ns.is_(None)
    )
    noted = write.execute(
        _SET.where(asleep).values(wanted_ns=write.now_ns), {"allocation": row.allocation_id}
    )
    if noted.rowcount:
        write.event("job.woken", row.job, tenant_id=row.tenant_id, data={"name": row.name})
        write.execute(_TOUCH_JOB, {"job": row.job_id})
        write.announce("idle", ("job", row.job))
    return bool(noted.rowcount)


def _find_state(known: SuspensionState, report: ReportIn) -> SuspensionState | None:
    """Return the state that a report leads to; None is a job that runs on its cards."""
    if report.state == "suspended":
        return SuspensionState.SUSPENDED
    return SuspensionState.FAILED if known is SuspensionState.SUSPENDING else None


def _empty_seats(
    write: WriteTransaction, metering: MeteringService, row: Row, report: ReportIn, known: Row
) -> LedgerChange:
    """Empty the seats of a job whose memory has left them, and remember their size."""
    taken = write.execute(READ_SEATS, {"allocation": row.allocation_id}).all()
    change = resize_allocation(
        write, metering, row.job, row.allocation_id, row.tenant_id, _build_changes(taken, 0, 0)
    )
    _write_state(
        write,
        row.allocation_id,
        SuspensionState.SUSPENDED,
        # All seats of a claim have the same size.
        gpu_milli=taken[0].gpu_milli,
        memory_bytes=taken[0].memory_bytes,
        host_bytes=report.gpu_memory_bytes,
        since_ns=known.since_ns or write.now_ns,
        note=report.reason[:400] or None,
    )
    return change


def _write_state(
    write: WriteTransaction, allocation: int, state: SuspensionState, **values: Any
) -> None:
    """Write the row of an allocation; a note of an earlier move goes."""
    row = {"state": state, "note": None, **values}
    changed = write.execute(_SET.values(**row), {"allocation": allocation})
    if not changed.rowcount:
        write.execute(suspensions.insert(), {"allocation_id": allocation, **row})


def _write_event(write: WriteTransaction, row: Row, report: ReportIn, known: Row) -> None:
    data: dict[str, Any] = {"name": row.name}
    kind = f"job.{report.state}"
    is_suspend = known.state == SuspensionState.SUSPENDING
    if is_suspend != (report.state == "suspended"):
        kind = "job.suspend_failed" if is_suspend else "job.resume_failed"
        data["reason"] = report.reason
    elif is_suspend:
        data["host_bytes"] = report.gpu_memory_bytes
        if known.beneficiary not in (None, IDLE_RULE):
            data["idle_for"] = known.beneficiary
    else:
        data["suspended_seconds"] = (write.now_ns - known.since_ns) // NANOS_PER_SECOND
    write.event(kind, row.job, tenant_id=row.tenant_id, data=data)


def _build_changes(taken: Sequence[Row], milli: int, size: int) -> list[SeatResize]:
    return [
        SeatResize(seat.device_id, milli, size, seat.gpu_milli, seat.memory_bytes) for seat in taken
    ]


def _announce(write: WriteTransaction, job: Row) -> None:
    write.execute(_TOUCH_JOB, {"job": job.id})
    write.announce(("job", job.public_id), ("node", job.agent))
