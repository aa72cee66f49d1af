"""Writes a checked submission, and places it if there is room.

`validate` has checked it before; `placement` decides where it goes.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial

import sqlalchemy as sa

from gpupool.allocations.placement.arrival import Arrival
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.submission import gang_parts
from gpupool.allocations.submission import store as submission_rows
from gpupool.allocations.submission.queue_limits import PendingGate
from gpupool.allocations.submission.submission import Submission
from gpupool.allocations.submission.unsettled_gangs import UnsettledGangs
from gpupool.allocations.views import job
from gpupool.base.errors import ServiceUnavailable
from gpupool.model.tenant import Principal
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.service import TenancyService
from gpupool.wire.jobs import SubmittedOut

logger = logging.getLogger(__name__)

#: Why a job waits that no cycle has seen.
REASON_BEFORE_FIRST_CYCLE = "submitted a moment ago"


class _JobWrites:
    """Writes one job in the placer's transaction, and keeps the answer.

    A stale plan makes the placer try again: the rows and the answer of the last try stand.
    """

    def __init__(self, submission: Submission, tenancy: TenancyService) -> None:
        self._submission = submission
        self._tenancy = tenancy
        self._key = 0
        self.answer: SubmittedOut | None = None

    def insert_rows(self, write: WriteTransaction) -> None:
        project = _find_project(self._tenancy, write, self._submission)
        self._key = submission_rows.insert_submission(write, self._submission, project)

    def record_answer(self, write: WriteTransaction, why: str) -> None:
        self.answer = _record_answer(write, self._submission, self._key, why)


class SubmissionWriter:
    """Writes submissions. Thread-safe; begins and commits its own transactions."""

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        placer: Placer,
        gangs: UnsettledGangs,
        gate: PendingGate,
    ) -> None:
        self._store = store
        self._tenancy = tenancy
        self._placer = placer
        self._gangs = gangs
        self._gate = gate
        self._cache = gate.cache

    def create_submission(
        self, submission: Submission, principal: Principal, *, wait: bool
    ) -> SubmittedOut:
        """Write a job, an array or a gang, and place what can be placed.

        Args:
            submission: A checked submission.
            principal: The caller.
            wait: Whether the job may wait if there is no room.

        Raises:
            TooMuchPending: The caller or its tenant has too many queue entries.
            NameTaken: A live job has the name.
            NoRoomNow: There is no room, and the job may not wait.
            UnknownTenant, NoPermission: Its tenant or its user was ended since the check.
        """
        with self._gate.admit_submission(submission, principal):
            if gang_parts.is_large_gang(submission):
                answer = self._create_large_gang(submission)
            elif submission.array:
                answer = self._create_array(submission)
            else:
                answer = self._create_job(submission, wait=wait)
        # Only accepted claims: the statistics say what will be requested of this pool.
        for part in submission.parts:
            self._cache.record_claim(part.shape, part.count)
        return answer

    def _create_job(self, submission: Submission, *, wait: bool) -> SubmittedOut:
        now_ns = self._store.clock.now_ns()
        job = _JobWrites(submission, self._tenancy)
        arrival = Arrival(
            submission.build_waiting_class(now_ns),
            submission.build_queue_entries(now_ns),
            insert=job.insert_rows,
            tell=job.record_answer,
        )
        if submission.wait is not None:
            self._placer.enqueue_arrival(arrival, submission.wait.sentence)
        elif wait and not submission.attached and self._placer.is_running:
            # No client waits for the start: jobs that come together are placed by one plan.
            self._placer.enqueue_arrival(arrival)
        else:
            self._placer.place_arrival(arrival, wait=wait)
        assert job.answer is not None
        return job.answer

    def _create_array(self, submission: Submission) -> SubmittedOut:
        # An array or a gang waits first, and is placed with what waits.
        with self._store.write() as write:
            key = self._insert_submission(write, submission)
            answer = _record_answer(write, submission, key, _describe_first_wait(submission))
            self._enqueue_on_commit(write, submission)
        return self._run_cycle_and_read(submission, key, answer)

    def _create_large_gang(self, submission: Submission) -> SubmittedOut:
        """Write a large gang in several transactions; it waits from the last one on.

        Raises:
            WrongState: The gang was stopped meanwhile.
        """
        with (
            idempotency.defer_key(),
            self._gangs.begin_writing() as begin,
            self._store.write() as write,
        ):
            begun, key = gang_parts.begin_gang(
                write, submission, _find_project(self._tenancy, write, submission)
            )
            write.note(partial(begin, begun.gang))
        with self._gangs.remove_on_failure(begun.gang):
            for first, end in gang_parts.list_later_parts(submission):
                is_last = end == submission.size
                with (
                    nullcontext() if is_last else idempotency.defer_key(),
                    self._store.write() as write,
                ):
                    gang_parts.add_members(write, begun, first, end)
                    if is_last:
                        why = _describe_first_wait(submission)
                        answer = _record_answer(write, submission, key, why)
                        self._enqueue_on_commit(write, submission)
        return self._run_cycle_and_read(submission, key, answer)

    def _enqueue_on_commit(self, write: WriteTransaction, submission: Submission) -> None:
        queued = submission.build_queue_entries(self._store.clock.now_ns())
        write.note(lambda: self._cache.enqueue_jobs(queued))

    def _run_cycle_and_read(
        self, submission: Submission, key: int, answer: SubmittedOut
    ) -> SubmittedOut:
        """Return the answer as it is after a cycle, or as it is if a thread runs the cycles."""
        if self._placer.is_running:
            # A cycle over a large pool takes longer than a client should wait for an answer.
            self._store.notifier.publish_topics({"queue"})
            return answer
        try:
            self._placer.run_cycle()
        except ServiceUnavailable as error:
            # The submission is written, so it has not failed; the next cycle places it.
            logger.warning("%s waits: %s", submission.public_ids[0], error)
        with self._store.read() as connection:
            return _read_answer(connection, submission, key, self._placer.planner.describe_wait)

    def _insert_submission(self, write: WriteTransaction, submission: Submission) -> int:
        project = _find_project(self._tenancy, write, submission)
        return submission_rows.insert_submission(write, submission, project)


def _find_project(tenancy: TenancyService, write: WriteTransaction, submission: Submission) -> int:
    return tenancy.find_payer(
        write.connection, submission.tenant_id, submission.user_id, submission.project
    )


def _describe_first_wait(submission: Submission) -> str:
    return REASON_BEFORE_FIRST_CYCLE if submission.wait is None else submission.wait.sentence


def _record_answer(
    write: WriteTransaction, submission: Submission, key: int, why: str
) -> SubmittedOut:
    """Read the answer and store it in the transaction, for a request that is repeated."""
    answer = _read_answer(write.connection, submission, key, lambda _job: why)
    # With the rows or not at all: a client that repeats a request after a crash gets this job and
    # no second one.
    if idempotency.get_pending_request() is not None:
        write.answer(201, answer.model_dump(mode="json"))
    return answer


def _read_answer(
    connection: sa.Connection, submission: Submission, key: int, why: job.WaitReason
) -> SubmittedOut:
    first = job.read_job(connection, key, why)
    return SubmittedOut(first=first, array=first.array, count=submission.size)
