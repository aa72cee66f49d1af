"""A checked submission: the jobs to write, and how they wait."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpupool.allocations.arrays.rest import ArrayRest
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.cache.start_waits import StartWait
from gpupool.allocations.dependencies.rows import Dependency
from gpupool.allocations.store.advice_rows import AdvisedShare
from gpupool.model.chains.retry import NO_RETRIES, RetryRule
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangRole
from gpupool.scheduling import (
    ClassKey,
    WaitingClass,
)


@dataclass(frozen=True)
class SubmissionPart:
    """The jobs of a submission that are alike: one claim, one command, from number `first` on."""

    shape: Shape
    command: list[str]
    first: int
    count: int
    role: GangRole | None = None


@dataclass(frozen=True)
class Submission:
    """A checked submission: rows ready to be written, and how it waits."""

    tenant_id: int
    tenant: str
    project: str
    user_id: int
    parts: tuple[SubmissionPart, ...]
    priority: int
    max_seconds: int | None
    #: The estimated runtime: the limit, else what past runs of such jobs say; None if unknown.
    seconds: int | None
    names: tuple[str, ...]
    array: str | None
    #: Ids of the jobs that are written at submission: of an array only its first member.
    public_ids: tuple[str, ...]
    attached: bool
    launch: dict[str, Any]
    preemptible: bool = False
    requeue: bool = False
    idle_seconds: int | None = None
    reservation: str | None = None
    gang: Gang | None = None
    array_id: str | None = None
    #: The name that replaces a generated one if a live job has that.
    spare_name: str | None = None
    retry: RetryRule = NO_RETRIES
    #: The ends for which its jobs wait, and why they wait as of its check; None: they do not.
    after: tuple[Dependency, ...] = ()
    wait: StartWait | None = None
    #: What an advice policy gave or proposed; None: nothing.
    advice: AdvisedShare | None = None

    def rename(self, name: str) -> Submission:
        """Return the same submission under another name."""
        if self.array is None:
            return replace(self, names=(name,))
        return replace(self, array=name, names=tuple(f"{name}.{n}" for n in range(len(self.names))))

    @property
    def shape(self) -> Shape:
        """The shape of the first part."""
        return self.parts[0].shape

    @property
    def size(self) -> int:
        """Number of jobs."""
        return sum(part.count for part in self.parts)

    @property
    def class_key(self) -> ClassKey:
        """The class of the queue in which its jobs wait."""
        # As `cache.pending_jobs` builds it from the rows: a restart must find the same class.
        return ClassKey(
            self.tenant,
            self.priority,
            self.shape,
            self.seconds,
            self.gang.id if self.gang else "",
            self.reservation,
            self.preemptible,
            self.is_estimated,
        )

    @property
    def is_estimated(self) -> bool:
        """Whether it has no limit, so that only past runs tell its runtime."""
        return self.max_seconds is None and self.seconds is not None

    def build_waiting_class(self, now_ns: int) -> WaitingClass:
        """Build a class of these jobs alone, for a plan before they are written."""
        return WaitingClass(
            self.tenant,
            self.priority,
            self.shape,
            self.public_ids,
            self.size,
            now_ns,
            seconds=self.seconds,
            gang=self.gang,
            reservation=self.reservation,
            preemptible=self.preemptible,
            guessed=self.is_estimated,
        )

    def build_queue_entries(self, now_ns: int) -> list[QueueEntry]:
        """Build the queue entries: the jobs, and the rest of an array as one."""
        key = self.class_key
        found = list[QueueEntry]()
        for job in self.public_ids:
            entry = QueueEntry(
                job,
                key,
                now_ns,
                self.gang,
                self.user_id,
                project=self.project,
                wait=self.wait,
            )
            found.append(entry)
        if self.array_id is not None and (left := self.size - len(self.public_ids)):
            rest = ArrayRest(self.array_id, self.size, self.size - left)
            entry = QueueEntry(
                self.array_id,
                key,
                now_ns,
                None,
                self.user_id,
                rest,
                project=self.project,
                wait=self.wait,
            )
            found.append(entry)
        return found
