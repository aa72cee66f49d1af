"""Reads the earlier attempts of a job, and which part of its log each wrote."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.store.attempt_table import attempts
from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import UnknownAttempt
from gpupool.wire.chains.retries import AttemptOut
from gpupool.wire.jobs import JobOut

_ATTEMPTS = (
    sa.select(attempts)
    .join(jobs, jobs.c.id == attempts.c.job_id)
    .where(jobs.c.public_id == sa.bindparam("job"))
    .order_by(attempts.c.number)
)


def read_attempts(connection: sa.Connection, job: str) -> list[AttemptOut]:
    """Read the earlier attempts of a job, the first one first."""
    found = list[AttemptOut]()
    for row in connection.execute(_ATTEMPTS, {"job": job}):
        values = dict(row._mapping)
        del values["job_id"]
        found.append(AttemptOut(**values))
    return found


def find_log_part(job: JobOut, number: int) -> tuple[int, int | None]:
    """Find the bytes of a job's log that an attempt wrote: from, and up to.

    Returns:
        The first byte, and the byte behind the last; None for the attempt that may write more.

    Raises:
        UnknownAttempt: There is no such attempt, or its part of the log is not known.
    """
    ends = {one.number: one.log_bytes for one in job.attempts}
    if not 1 <= number <= job.attempt:
        raise UnknownAttempt(
            f"job {job.name} has {job.attempt} attempts, not {number}",
            hint=f"gpupool show {job.name}  lists them",
            attempts=job.attempt,
        )
    first = 0 if number == 1 else ends.get(number - 1)
    end = ends.get(number)
    if first is None or (number < job.attempt and end is None):
        raise UnknownAttempt(
            f"which part of the log is of attempt {number} of job {job.name} is not known",
            hint=f"gpupool logs {job.name}  prints all attempts",
            attempts=job.attempt,
        )
    return first, end if number < job.attempt else None
