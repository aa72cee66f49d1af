"""The rows of a job's ladder and of what it gave back. Each function is a part of one transaction."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.idleness.ladder import IdleAct, IdleStep
from gpupool.allocations.idleness.tables import idle_spans, idle_states
from gpupool.allocations.idleness.units import IdleUnit, UnitActivity
from gpupool.allocations.store.tables import jobs
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.job import ENDED
from gpupool.store.database import WriteTransaction

#: What was given back is reported for 400 days, a year and its month.
KEPT_NS: Final = 400 * 86_400 * NANOS_PER_SECOND

_FRESH = {
    "counters": "",
    "act": None,
    "dry_run": False,
    "skip": "",
    "milli_before": None,
    "milli_after": None,
    "wait_ns": None,
    "keep_until_ns": None,
}
_CLOSE = (
    idle_spans.update()
    .where(idle_spans.c.job_id == sa.bindparam("job"), idle_spans.c.end_ns.is_(None))
    .values(end_ns=sa.bindparam("now"))
)


def record_step(
    write: WriteTransaction,
    unit: IdleUnit,
    step: IdleStep,
    seen: UnitActivity,
    *,
    dry_run: bool,
    **more: Any,
) -> None:
    """Record that a step was taken, or why it could not be (`skip`)."""
    values = {
        "since_ns": seen.last_ns,
        "counters": seen.counters,
        "act": str(step.act),
        "at_ns": write.now_ns,
        "dry_run": dry_run,
        "skip": "",
        **more,
    }
    write_state(write, unit.row_id, values)


def write_state(write: WriteTransaction, job_id: int, values: dict[str, Any]) -> None:
    """Write columns of a job's row; one that it has not is made."""
    mine = idle_states.c.job_id == job_id
    changed = write.execute(idle_states.update().where(mine).values(**values))
    if not changed.rowcount:
        row = {**_FRESH, "since_ns": write.now_ns, "at_ns": write.now_ns, **values}
        write.execute(idle_states.insert(), {"job_id": job_id, **row})


def delete_state(write: WriteTransaction, job_id: int) -> None:
    """Delete a job's row: its ladder begins anew. Idempotent."""
    write.execute(idle_states.delete().where(idle_states.c.job_id == job_id))


def open_span(
    write: WriteTransaction, unit: IdleUnit, act: IdleAct, gpu_milli: int, *, dry_run: bool
) -> None:
    """Begin to count what a step gives back, or would: of a stop that was done it is not known."""
    is_open = dry_run or act is not IdleAct.STOP
    write.insert(
        idle_spans,
        job_id=unit.row_id,
        tenant_id=unit.tenant_id,
        act=str(act),
        dry_run=dry_run,
        gpu_milli=gpu_milli,
        model=unit.model,
        sharing=unit.sharing,
        preemptible=unit.preemptible,
        start_ns=write.now_ns,
        end_ns=None if is_open else write.now_ns,
    )


def close_spans(write: WriteTransaction, job_id: int) -> None:
    """End what a job gives back. Idempotent."""
    write.execute(_CLOSE, {"job": job_id, "now": write.now_ns})


def sum_dry_milli(connection: sa.Connection, job_id: int) -> int:
    """Sum the compute that dry runs count as given back by a job now."""
    query = sa.select(sa.func.coalesce(sa.func.sum(idle_spans.c.gpu_milli), 0)).where(
        idle_spans.c.job_id == job_id, idle_spans.c.end_ns.is_(None), idle_spans.c.dry_run
    )
    return int(connection.execute(query).scalar_one())


def has_ended_rows(connection: sa.Connection) -> bool:
    """Whether jobs that have ended still have rows here."""
    return connection.execute(_select_ended(idle_states).limit(1)).first() is not None or (
        connection.execute(_select_open_ended().limit(1)).first() is not None
    )


def forget_ended(write: WriteTransaction) -> None:
    """Delete the rows of ended jobs, and end what they gave back at their end. Idempotent."""
    for row in write.execute(_select_open_ended()).all():
        mine = sa.and_(idle_spans.c.job_id == row.id, idle_spans.c.end_ns.is_(None))
        write.execute(idle_spans.update().where(mine).values(end_ns=row.ended_ns or write.now_ns))
    old_ns = write.now_ns - KEPT_NS
    write.execute(idle_spans.delete().where(idle_spans.c.end_ns < old_ns))
    ended = write.execute(_select_ended(idle_states)).scalars().all()
    write.execute(idle_states.delete().where(idle_states.c.job_id.in_(ended)))


def _select_ended(table: sa.Table) -> sa.Select[tuple[int]]:
    return (
        sa.select(table.c.job_id)
        .join(jobs, jobs.c.id == table.c.job_id)
        .where(jobs.c.state.in_(sorted(ENDED)))
    )


def _select_open_ended() -> sa.Select[tuple[int, int | None]]:
    return (
        sa.select(jobs.c.id, jobs.c.ended_ns)
        .join(idle_spans, idle_spans.c.job_id == jobs.c.id)
        .where(idle_spans.c.end_ns.is_(None), jobs.c.state.in_(sorted(ENDED)))
        .distinct()
    )
