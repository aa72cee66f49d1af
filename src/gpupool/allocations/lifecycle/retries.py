"""Failed attempts of jobs: recorded, and followed by another one after a pause."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger import gang_lifecycle
from gpupool.allocations.ledger.stop_reasons import REQUEUE_REASONS
from gpupool.allocations.lifecycle.job_ends import judge_end
from gpupool.allocations.store.attempt_table import attempts
from gpupool.allocations.store.tables import IS_LIVE, jobs
from gpupool.model.chains.retry import RetryRule, is_retried_end
from gpupool.model.job import JobState
from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import ReportIn

Row = sa.Row[Any]

#: Reasons of a stop that name no failure of the job. What ends by it waits again before this is asked.
_REQUEUES = frozenset({"preempted", "recovered", "budget", "moved"})
_NEXT_ATTEMPT = (
    jobs.update()
    .where(IS_LIVE)
    .values(
        attempt=sa.bindparam("number"),
        not_before_ns=sa.bindparam("until"),
        generation=jobs.c.generation + 1,
    )
)
_OF_JOB = _NEXT_ATTEMPT.where(jobs.c.id == sa.bindparam("job"))
#: Without a reason: what the job waits for is said instead.
_WAIT = (
    jobs.update()
    .where(jobs.c.id == sa.bindparam("job"))
    .values(
        state=JobState.PENDING,
        reason="",
        stop_requested=None,
        stop_grace_s=None,
        leaving_for=None,
        placed_ns=None,
        started_ns=None,
        generation=jobs.c.generation + 1,
    )
)
_OF_GANG = _NEXT_ATTEMPT.where(jobs.c.gang_id == sa.bindparam("gang"))


def can_retry(write: WriteTransaction, row: Row, report: ReportIn) -> bool:
    """Return whether the end is a failure after which the job is tried again.

    An end that was requested does not count, with two exceptions. A member of a gang whose next
    attempt has been decided is tried again, because the failure of one member makes others fail. So
    is a job whose command failed by itself before the job was sent back to the queue.
    """
    if not row.retries or row.attached:
        return False
    state, _ = judge_end(None, report)
    if not is_retried_end(state, report.reason):
        return False
    is_regrouped = row.gang_id is not None and row.stop_requested == "regrouped"
    is_own = row.gang_id is None and row.stop_requested in _REQUEUES
    if row.stop_requested is not None and not (is_regrouped or is_own):
        return False
    if row.attempt > row.retries and not is_regrouped:
        return False
    return gang_lifecycle.can_wait_again(write, row)


def fails_as_gang_leaves(write: WriteTransaction, row: Row, report: ReportIn) -> bool:
    """Return whether a member failed while its gang leaves to wait again, and may wait with it.

    Members that have left break the connections of the others, whose own signal may come later. A
    gang that did not agree to run again ends with its failed member.
    """
    is_leaving = row.gang_id is not None and row.stop_requested in REQUEUE_REASONS
    if not (is_leaving and (row.requeue or row.preemptible)):
        return False
    state, _ = judge_end(None, report)
    return is_retried_end(state, report.reason) and gang_lifecycle.can_wait_again(write, row)


def retry_job(write: WriteTransaction, row: Row, report: ReportIn) -> list[str]:
    """Record how the attempt ended, and let the job wait for the next one, and its gang with it.

    Its launch and its log are kept.

    Returns:
        Public ids of members of its gang whose end was requested.
    """
    state, reason = judge_end(None, report)
    is_decided = row.stop_requested == "regrouped"
    number = row.attempt - 1 if is_decided else row.attempt
    write.execute(
        attempts.insert(),
        {
            "job_id": row.job_id,
            "number": number,
            "state": state,
            "reason": reason[:400],
            "exit_code": report.exit_code,
            "signal": report.signal,
            "started_ns": report.started_ns or row.started_ns,
            "ended_ns": write.now_ns,
            "log_bytes": report.log_bytes,
        },
    )
    if not is_decided:
        rule = RetryRule(row.retries, row.retry_first_s, row.retry_most_s)
        until = write.now_ns + rule.compute_pause_ns(row.job, number)
        if row.gang_id is None:
            write.execute(_OF_JOB, {"job": row.job_id, "number": number + 1, "until": until})
        else:
            write.execute(_OF_GANG, {"gang": row.gang_id, "number": number + 1, "until": until})
        data = {"name": row.name, "attempt": number, "state": str(state), "reason": reason}
        write.event("job.retried", row.job, tenant_id=row.tenant_id, data=data)
    write.execute(_WAIT, {"job": row.job_id})
    write.announce(("job", row.job))
    return gang_lifecycle.regroup_members(write, row)
