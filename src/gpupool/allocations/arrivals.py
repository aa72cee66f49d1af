"""Taking in what was checked: a submission is written, and placed with its arrival where there is room.

What was wrong with it was said before (`intake`); where it goes is the placer's.
"""

from __future__ import annotations

import logging

import sqlalchemy as sa

from gpupool.allocations import inserting, job_view
from gpupool.allocations.intake import Submission
from gpupool.allocations.limits import PendingGate, PendingLimits
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.placing import Arrival, Placer
from gpupool.base.errors import Unavailable
from gpupool.model.tenant import Principal
from gpupool.store import replay
from gpupool.store.database import Store, Write
from gpupool.tenancy.service import Tenancy
from gpupool.wire.jobs import SubmittedOut

logger = logging.getLogger(__name__)


class Arrivals:
    """Thread-safe."""

    def __init__(self, store: Store, tenancy: Tenancy, mirror: Mirror, placer: Placer, limits: PendingLimits) -> None:
        self._store, self._tenancy, self._mirror, self._placer = store, tenancy, mirror, placer
        self._gate = PendingGate(mirror, limits)

    def take_in(self, submission: Submission, principal: Principal, *, wait: bool) -> SubmittedOut:
        """Write a job or an array, and place what can be placed.

        Raises TooMuchPending, NameTaken, NoRoomNow, leaving nothing.
        """
        with self._gate.admitted(submission, principal):
            told = self._take_in_many(submission) if submission.array else self._take_in_one(submission, wait=wait)
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
        """They wait first; a first batch of them is placed before the answer."""
        with self._store.write() as write:
            key = self._insert(write, submission)
            _tell(write, submission, key, "submitted a moment ago")
            queued = submission.queued(self._store.clock.now_ns())
            write.note(lambda: self._mirror.enqueue(queued))
        try:
            self._placer.run_once()
        except Unavailable as error:
            # The array is taken in, so its submission has not failed; the placer's thread tries again after `publish`.
            logger.warning("array %s waits: %s", submission.public_ids[0], error)
        self._store.hub.publish({"queue"})
        with self._store.read() as connection:
            return _submitted(connection, submission, key, self._placer.planner.why)

    def _insert(self, write: Write, submission: Submission) -> int:
        project = self._tenancy.project_id(write.connection, submission.tenant_id, submission.project)
        return inserting.insert(write, submission, project)


def _tell(write: Write, submission: Submission, key: int, why: str) -> SubmittedOut:
    """The answer, kept with the job for whoever repeats the request, also after a crash."""
    told = _submitted(write.connection, submission, key, lambda _job: why)
    if replay.pending() is not None:
        write.answer(201, told.model_dump(mode="json"))
    return told


def _submitted(connection: sa.Connection, submission: Submission, key: int, why: job_view.Why) -> SubmittedOut:
    first = job_view.one(connection, key, why)
    return SubmittedOut(first=first, array=first.array, count=submission.size)
