"""Fold the books by age, so that a year stays small: seconds into hours, hours into days.

Each step is one short transaction that removes rows from one table and adds the same amount to the
next. So a report adds up to the same at any moment, and a kill -9 between two steps loses and
doubles nothing. The marks go forward first: from then on a report is cut at whole hours (days)
there, and so finds both the folded and the not yet folded part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.tables import device_spans
from gpupool.metering.books import (
    DAY_S,
    HOUR_S,
    ZERO,
    CardSpan,
    MeteredSeat,
    RollupMarks,
    UsageAmount,
    cut_seat,
)
from gpupool.metering.energy.writing import fold_energy
from gpupool.metering.job_use.writing import forget_old_use
from gpupool.metering.samples import SUM_COLUMNS
from gpupool.metering.tables import (
    add_rows,
    delivered,
    insert_or_add,
    intervals,
    job_usage,
    ledger_marks,
    usage_days,
    usage_hours,
)
from gpupool.store.database import Store, WriteTransaction

#: How long seconds stay, and how long hours stay: a bill of last month is still by the hour.
FINE_KEPT_S = 48 * HOUR_S
HOURS_KEPT_S = 35 * DAY_S
#: Intervals that one transaction folds.
CHUNK = 300
#: Rows of hours that one transaction folds, about.
HOURS_CHUNK = 3000
#: How much of one long interval one transaction folds.
REACH_S = 2 * DAY_S
_OWNER = ("device_id", "tenant_id", "project_id", "user_id", "job_id")


def read_marks(connection: sa.Connection) -> RollupMarks:
    row = connection.execute(sa.select(ledger_marks)).one_or_none()
    return RollupMarks() if row is None else RollupMarks(row.fine_s, row.coarse_s)


def roll_up(store: Store, max_steps: int = 1_000_000) -> bool:
    """Fold what is old enough; return True when nothing is left. Idempotent; may be killed anywhere."""
    for _ in range(max_steps):
        with store.write() as write:
            marks = _advance_marks(write)
            done = not any(step(write, marks) for step in _STEPS)
        if done:
            return True
    return False


def _advance_marks(write: WriteTransaction) -> RollupMarks:
    """Move the marks to where the books may be cut coarser now; they never go back."""
    old = read_marks(write.connection)
    now_s = write.now_ns // NANOS_PER_SECOND
    fine = max(old.fine_s, _floor_to_slot(now_s - FINE_KEPT_S, HOUR_S))
    coarse = max(old.coarse_s, _floor_to_slot(now_s - HOURS_KEPT_S, DAY_S))
    new = RollupMarks(max(0, fine), max(0, coarse))
    if new != old:
        write.execute(ledger_marks.delete())
        write.execute(ledger_marks.insert().values(id=1, fine_s=new.fine_s, coarse_s=new.coarse_s))
    return new


def _floor_to_slot(second: int, width_s: int) -> int:
    return second - second % width_s


# Seconds into hours --------------------------------------------------------------------------


def _fold_seats(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Move what lies before the fine mark of the oldest intervals into hours; False without any."""
    # The end of a cluster's open interval may be reported days later: it is folded once known.
    known = sa.or_(intervals.c.allocation_id > 0, intervals.c.end_s.is_not(None))
    old = sa.and_(intervals.c.start_s < marks.fine_s, known)
    rows = write.execute(
        sa.select(intervals).where(old).order_by(intervals.c.start_s).limit(CHUNK)
    ).all()
    if not rows:
        return False
    stops = {
        row.id: min(marks.fine_s, _floor_to_slot(row.start_s, HOUR_S) + REACH_S) for row in rows
    }
    spans = _read_spans(
        write, {row.device_id for row in rows}, rows[0].start_s, max(stops.values())
    )
    sums: dict[tuple[Any, ...], UsageAmount] = defaultdict(lambda: ZERO)
    for row in rows:
        seat = MeteredSeat(row.device_id, row.gpu_milli, row.memory_mib, row.start_s, row.end_s)
        for piece in cut_seat(seat, spans.get(row.device_id, ()), stops[row.id]):
            sums[(piece.hour_s, *(row._mapping[key] for key in _OWNER), piece.under)] += (
                piece.amount
            )
    _add_hours(write, sums)
    _shorten_intervals(write, rows, stops)
    return True


def _read_spans(
    write: WriteTransaction, device_ids: Iterable[int], since_s: int, until_s: int
) -> Mapping[int, Sequence[CardSpan]]:
    s = device_spans.c
    late = sa.or_(s.end_s.is_(None), s.end_s > since_s)
    query = sa.select(device_spans).where(
        s.device_id.in_(list(device_ids)), s.start_s < until_s, late
    )
    found: dict[int, list[CardSpan]] = defaultdict(list)
    for row in write.execute(query):
        found[row.device_id].append(
            CardSpan(row.device_id, row.kind, row.memory_mib, row.start_s, row.end_s)
        )
    return found


def _add_hours(write: WriteTransaction, sums: Mapping[tuple[Any, ...], UsageAmount]) -> None:
    names = ("hour_s", *_OWNER, "under")
    rows: list[dict[str, Any]] = []
    for key, amount in sums.items():
        row = dict(zip(names, key, strict=True))
        row["card_milliseconds"] = amount.card_milliseconds
        row["memory_mib_seconds"] = amount.memory_mib_seconds
        row["dominant_micro_seconds"] = amount.dominant_micro_seconds
        rows.append(row)
    add_rows(write.connection, usage_hours, rows)


def _shorten_intervals(
    write: WriteTransaction, rows: Sequence[Any], stops: Mapping[int, int]
) -> None:
    """Remove from the intervals what was moved: the whole row, or its beginning."""
    moved: list[int] = []
    shortened: list[dict[str, int]] = []
    for row in rows:
        if row.end_s is not None and row.end_s <= stops[row.id]:
            moved.append(row.id)
        else:
            shortened.append({"row_id": row.id, "new_start_s": stops[row.id]})
    if moved:
        write.execute(intervals.delete().where(intervals.c.id.in_(moved)))
    if shortened:
        later = intervals.update().where(intervals.c.id == sa.bindparam("row_id"))
        write.execute(later.values(start_s=sa.bindparam("new_start_s")), shortened)


# Hours into days -----------------------------------------------------------------------------


def _fold_hours(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Move the oldest hours before the coarse mark into their days; False without any."""
    u = usage_hours.c
    old = sa.select(u.hour_s).where(u.hour_s < marks.coarse_s).order_by(u.hour_s).limit(1)
    first = write.execute(old).scalar_one_or_none()
    if first is None:
        return False
    # Whole hours, as many as make up a chunk.
    after = write.execute(old.where(u.hour_s > first).offset(HOURS_CHUNK)).scalar_one_or_none()
    these = u.hour_s < (marks.coarse_s if after is None else after)
    keys = [u.device_id, u.tenant_id, u.project_id, u.user_id, u.under]
    amounts = [u.card_milliseconds, u.memory_mib_seconds, u.dominant_micro_seconds]
    day = u.hour_s - u.hour_s % sa.literal_column(str(DAY_S))
    moved = (
        sa.select(day, *keys, *(_sum_bigint(column) for column in amounts))
        .where(these)
        .group_by(day, *keys)
    )
    names = ["day_s", *(column.name for column in keys), *(column.name for column in amounts)]
    write.execute(insert_or_add(write.connection, usage_days).from_select(names, moved))
    write.execute(usage_hours.delete().where(these))
    return True


def _sum_bigint(column: Any) -> Any:
    return sa.cast(sa.func.sum(column), sa.BigInteger)  # PostgreSQL's sum of bigint is numeric


# What was delivered --------------------------------------------------------------------------


def _fold_slots(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Widen the oldest slots of measured use to hours, and hours to days without the job."""
    return _widen_slot(write, None, HOUR_S, marks.fine_s) or _widen_slot(
        write, HOUR_S, DAY_S, marks.coarse_s
    )


def _widen_slot(write: WriteTransaction, width_s: int | None, wider_s: int, before_s: int) -> bool:
    d = delivered.c
    narrow = d.width_s < wider_s if width_s is None else d.width_s == width_s
    slot = write.execute(
        sa.select(d.width_s, d.slot_s).where(narrow, d.slot_s < before_s).limit(1)
    ).one_or_none()
    if slot is None:
        return False
    this = sa.and_(d.width_s == slot.width_s, d.slot_s == slot.slot_s)
    job = sa.literal(0, sa.BigInteger) if wider_s == DAY_S else d.job_id
    keys = [d.tenant_id, d.project_id, d.user_id]
    moved = sa.select(
        sa.literal(wider_s, sa.Integer),
        sa.literal(_floor_to_slot(slot.slot_s, wider_s), sa.BigInteger),
        *keys,
        job.label("job"),
        *(_sum_bigint(d[name]) for name in SUM_COLUMNS),
    ).where(this)
    moved = moved.group_by(*keys, *([] if wider_s == DAY_S else [d.job_id]))
    write.execute(
        insert_or_add(write.connection, delivered).from_select(
            [column.name for column in delivered.c], moved
        )
    )
    write.execute(delivered.delete().where(this))
    return True


def _forget_jobs(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Drop the running sums of jobs that were last heard of before the coarse mark."""
    old = sa.select(job_usage.c.job_id).where(job_usage.c.at_s < marks.coarse_s).limit(CHUNK)
    held = sa.select(intervals.c.job_id).where(intervals.c.end_s.is_(None))
    ids = write.execute(old.where(job_usage.c.job_id.not_in(held))).scalars().all()
    write.execute(job_usage.delete().where(job_usage.c.job_id.in_(ids)))
    return bool(ids)


def _forget_use(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Drop the histograms of jobs that were last measured long ago."""
    return forget_old_use(write, CHUNK)


def _fold_energy(write: WriteTransaction, marks: RollupMarks) -> bool:
    """Widen the oldest slots of measured energy."""
    return fold_energy(write, marks.fine_s, marks.coarse_s)


_STEPS = (_fold_seats, _fold_hours, _fold_slots, _fold_energy, _forget_jobs, _forget_use)
