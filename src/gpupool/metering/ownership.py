"""Move what jobs hold in the books from one user to another, from a second on.

Intervals close and open as for a new size: a second belongs to one of both users, and the sums of
all users stay what the cards were held for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.tables import allocations_view, intervals, jobs_view, owner_spans
from gpupool.store.database import WriteTransaction


def read_other_jobs(
    write: WriteTransaction, job_ids: Collection[int], user_id: int
) -> dict[int, Any]:
    """Read those of the jobs that belong to other users, by row id."""
    query = sa.select(jobs_view).where(
        jobs_view.c.id.in_(list(job_ids)), jobs_view.c.user_id != user_id
    )
    return {row.id: row for row in write.execute(query)}


def move_seats(write: WriteTransaction, jobs: Mapping[int, Any], user_id: int) -> None:
    """Close the open intervals of jobs, and open the same ones for another user."""
    now_s = write.now_ns // NANOS_PER_SECOND
    is_open = sa.and_(intervals.c.job_id.in_(list(jobs)), intervals.c.end_s.is_(None))
    rows = [dict(row._mapping) for row in write.execute(sa.select(intervals).where(is_open))]
    # An interval of this very second counts nothing.
    write.execute(intervals.delete().where(is_open, intervals.c.start_s >= now_s))
    write.execute(intervals.update().where(is_open).values(end_s=now_s))
    for row in rows:
        del row["id"]
        row["user_id"] = user_id
        row["start_s"] = now_s
    if rows:
        write.execute(intervals.insert(), rows)
    _note_owners(write, jobs, now_s)


def _note_owners(write: WriteTransaction, jobs: Mapping[int, Any], now_s: int) -> None:
    """Note until when jobs that were placed once belonged to their user."""
    placed = sa.select(allocations_view.c.job_id).where(allocations_view.c.job_id.in_(list(jobs)))
    last = sa.select(owner_spans.c.job_id, sa.func.max(owner_spans.c.end_s).label("end_s"))
    ours = owner_spans.c.job_id.in_(list(jobs))
    ends = {row.job_id: row.end_s for row in write.execute(last.where(ours).group_by("job_id"))}
    rows = []
    for job_id in sorted(set(write.execute(placed).scalars())):
        user_id = jobs[job_id].user_id
        start_s = ends.get(job_id, 0)
        rows.append({"job_id": job_id, "user_id": user_id, "start_s": start_s, "end_s": now_s})
    if rows:
        write.execute(owner_spans.insert(), rows)
