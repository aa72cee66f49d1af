"""Taking in what was checked: a submission is written, and placed with its arrival where there is room.

What was wrong with it was said before (`intake`); where it goes is the placer's.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial

import sqlalchemy as sa

from gpupool.allocations import gang_parts, inserting, job_view
from gpupool.allocations.intake import Submission
from gpupool.allocations.limits import PendingGate
from gpupool.allocations.placing import Arrival, Placer
from gpupool.allocations.unsettled import UnsettledGangs
from gpupool.base.errors import Unavailable
from gpupool.model.tenant import Principal
from gpupool.store import replay
from gpupool.store.database import Store, Write
from gpupool.tenancy.service import Tenancy
from gpupool.wire.jobs import SubmittedOut

logger = logging.getLogger(__name__)

NOT_LOOKED_AT = "submitted a moment ago"
"""Why a job waits that no cycle has seen."""


class Arrivals:
    """Thread-safe."""

    def __init__(
        self, store: Store, tenancy: Tenancy, placer: Placer, gangs: UnsettledGangs, gate: PendingGate
    ) -> None:
        self._store, self._tenancy, self._placer = store, tenancy, placer
        self._gangs, self._gate, self._mirror = gangs, gate, gate.mirror

    def take_in(self, submission: Submission, principal: Principal, *, wait: bool) -> SubmittedOut:
        """Write a job or an array, and place what can be placed.

        Raises TooMuchPending, NameTaken, NoRoomNow, leaving nothing.
        """
        with self._gate.admitted(submission, principal):
            if gang_parts.is_large(submission):
                told = self._take_in_parts(submission)
            elif submission.array:
                told = self._take_in_many(submission)
            else:
                told = self._take_in_one(submission, wait=wait)
        for part in submission.parts:  # what is asked for is what will be asked for
            self._mirror.note_claim(part.shape, part.count)
        return told

    def _take_in_one(self, submission: Submission, *, wait: bool) -> SubmittedOut:
        """Placed in the transaction that writes it; or, where nobody waits for that, with those that come with it."""
        now_ns, keys, told = self._store.clock.now_ns(), list[int](), list[SubmittedOut]()
        arrival = Arrival(
            submission.waiting(now_ns),
            submission.queued(now_ns),
            insert=lambda write: keys.append(self._insert(write, submission)),
            tell=lambda write, why: told.append(_tell(write, submission, keys[-1], why)),
        )
        if wait and not submission.attached and self._placer.running:
            self._placer.take_in_later(arrival)
        else:
            self._placer.take_in(arrival, wait=wait)
        return told[-1]

    def _take_in_many(self, submission: Submission) -> SubmittedOut:
        """They wait first, and are placed with what waits."""
        with self._store.write() as write:
            key = self._insert(write, submission)
            told = _tell(write, submission, key, NOT_LOOKED_AT)
            self._enqueue(write, submission)
        return self._placed(submission, key, told)

    def _take_in_parts(self, submission: Submission) -> SubmittedOut:
        """A large gang, in several transactions: it waits from the last one on. Raises WrongState if it is stopped."""
        with replay.aside(), self._gangs.begin() as begin, self._store.write() as write:
            begun, key = gang_parts.begin_gang(write, submission, self._project(write, submission))
            write.note(partial(begin, begun.gang))
        with self._gangs.written(begun.gang):
            for first, end in gang_parts.parts_after_the_first(submission):
                is_last = end == submission.size
                with nullcontext() if is_last else replay.aside(), self._store.write() as write:
                    gang_parts.add_members(write, begun, first, end)
                    if is_last:
                        told = _tell(write, submission, key, NOT_LOOKED_AT)
                        self._enqueue(write, submission)
        return self._placed(submission, key, told)

    def _enqueue(self, write: Write, submission: Submission) -> None:
        queued = submission.queued(self._store.clock.now_ns())
        write.note(lambda: self._mirror.enqueue(queued))

    def _placed(self, submission: Submission, key: int, told: SubmittedOut) -> SubmittedOut:
        """The answer after a cycle; the one before, where a thread places: its cycle is not waited for."""
        if self._placer.running:
            self._store.hub.publish({"queue"})
            return told
        try:
            self._placer.run_once()
        except Unavailable as error:
            # It is taken in, so its submission has not failed; it is tried again with the next cycle.
            logger.warning("%s waits: %s", submission.public_ids[0], error)
        with self._store.read() as connection:
            return _submitted(connection, submission, key, self._placer.planner.why)

    def _insert(self, write: Write, submission: Submission) -> int:
        return inserting.insert(write, submission, self._project(write, submission))

    def _project(self, write: Write, submission: Submission) -> int:
        return self._tenancy.project_id(write.connection, submission.tenant_id, submission.project)


def _tell(write: Write, submission: Submission, key: int, why: str) -> SubmittedOut:
    """The answer, kept with the job for whoever repeats the request, also after a crash."""
    told = _submitted(write.connection, submission, key, lambda _job: why)
    if replay.pending() is not None:
        write.answer(201, told.model_dump(mode="json"))
    return told


def _submitted(connection: sa.Connection, submission: Submission, key: int, why: job_view.Why) -> SubmittedOut:
    first = job_view.one(connection, key, why)
    return SubmittedOut(first=first, array=first.array, count=submission.size)
