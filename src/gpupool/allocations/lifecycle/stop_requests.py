"""Requests to stop jobs, and the gangs that they are in."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from gpupool.allocations.ledger import gang_lifecycle, job_stops, stop_reasons
from gpupool.allocations.store.tables import jobs
from gpupool.model.deadlines import START_SECONDS
from gpupool.model.job import ENDED, JobState
from gpupool.store.database import WriteTransaction


def request_stop(
    write: WriteTransaction, job_ids: Sequence[int], why: str, grace_s: int | None
) -> tuple[list[str], list[str]]:
    """Request the end of live jobs and of the gangs they are in. Idempotent.

    Jobs that only wait end at once. A second request changes only the grace.

    Returns:
        Public ids of the jobs that ended, and of those whose end was requested.
    """
    return stop_jobs(write, gang_lifecycle.list_gang_members(write, job_ids), why, grace_s)


def stop_jobs(
    write: WriteTransaction, ids: Sequence[int], why: str, grace_s: int | None
) -> tuple[list[str], list[str]]:
    """Request the end of these jobs and no others; otherwise as `request_stop`."""
    query = sa.select(jobs.c.id, jobs.c.public_id, jobs.c.state).where(
        jobs.c.id.in_(ids), jobs.c.state.not_in(ENDED)
    )
    rows = write.execute(query).all()
    waiting = [row.id for row in rows if row.state == JobState.PENDING]
    working = [row.id for row in rows if row.state != JobState.PENDING]
    gone = job_stops.stop_waiting_jobs(write, waiting, why)
    asked = job_stops.stop_working_jobs(write, working, why, grace_s)
    if why == stop_reasons.OVERDUE:
        data = {"state": "starting", "seconds": START_SECONDS}
        job_stops.write_job_events("job.overdue", write, asked, data)
    # Also jobs whose end was requested before: a client may wait for their next state.
    write.announce(*(("job", row.public_id) for row in rows))
    return gone, asked
