"""The claims of a snapshot: waiting classes, running jobs, holds and the expected demand.

Claims wait in classes of equal rank, tenant and shape. Equal shapes get equal answers, and a queue
of a hundred thousand jobs has few classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.numa import NumaPart
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.snapshot.columns import Ints


@dataclass(frozen=True)
class WaitingClass:
    """Waiting claims of one tenant, priority and shape, oldest first.

    `job_ids` are the oldest few (at most a batch); `count` is the number of all that wait.
    """

    tenant: str
    priority: int
    shape: Shape
    #: Job ids.
    job_ids: tuple[str, ...]
    count: int
    oldest_ns: int
    #: When each head was submitted; left out, every head is as old as the oldest.
    submitted_ns: tuple[int, ...] = ()
    #: How long such a job runs at most (its limit, or what the past has taught); None is unknown.
    seconds: int | None = None
    #: The entry is one gang: `heads` are its members that do not run yet, `shape` that of its first
    #: role.
    gang: Gang | None = None
    #: The name of the reservation that it may use, beside what everybody may.
    reservation: str | None = None
    #: It may be made to give its seats back and wait again; so it may use what others are
    #: guaranteed.
    preemptible: bool = False
    #: `seconds` is what the past has taught: no limit ends the job then.
    guessed: bool = False

    @classmethod
    def build(
        cls,
        key: ClassKey,
        heads: Sequence[str],
        count: int,
        heads_ns: Sequence[int],
        gang: Gang | None,
    ) -> WaitingClass:
        """Return a class from its key and its oldest jobs, in queue order.

        Args:
            key: The key of the class.
            heads: Ids of the oldest jobs.
            count: How many wait in all.
            heads_ns: When each of the oldest jobs was submitted.
            gang: The gang, if the class is one.
        """
        return cls(
            key.tenant,
            key.priority,
            key.shape,
            tuple(heads),
            count,
            min(heads_ns),
            tuple(heads_ns),
            seconds=key.seconds,
            gang=gang,
            reservation=key.reservation,
            preemptible=key.preemptible,
            guessed=key.guessed,
        )

    @cached_property
    def key(self) -> ClassKey:
        """The key of the class."""
        gang = self.gang.id if self.gang else ""
        may_leave = self.preemptible
        shape = self.shape
        seconds = self.seconds
        return ClassKey(
            self.tenant,
            self.priority,
            shape,
            seconds,
            gang,
            self.reservation,
            may_leave,
            self.guessed,
        )


class ClassKey(NamedTuple):
    """What makes two waiting claims one class: they get equal answers, apart from their age."""

    tenant: str
    priority: int
    shape: Shape
    seconds: int | None = None
    gang: str = ""
    reservation: str | None = None
    preemptible: bool = False
    guessed: bool = False


@dataclass(frozen=True)
class RunningJob:
    """A job that holds seats: what it would release, when, and at what cost."""

    job: str
    tenant: str
    priority: int
    #: Of its cards in the snapshot, one per seat.
    rows: tuple[int, ...]
    milli: tuple[int, ...]
    #: Memory bytes per seat.
    sizes: tuple[int, ...]
    shape: Shape
    started_ns: int
    #: When its limit ends it, or the past says it will end; None is unknown.
    ends_ns: int | None = None
    #: When it last saved its state (a checkpoint); None: never, all its work would be lost.
    saved_ns: int | None = None
    preemptible: bool = False
    gang: str = ""
    reservation: str | None = None
    #: It was told to give its seats back to this job or gang, and is still saving its work.
    beneficiary: str = ""
    #: Of partitions, which piece of each of `rows`.
    slots: tuple[PartitionSlot, ...] = ()
    #: What it has of its node's NUMA nodes.
    numa: tuple[NumaPart, ...] = ()
    #: `ends_ns` is what the past says: no limit ends it then.
    guessed: bool = False
    #: In its gang.
    role: str = ""
    #: So many members of its role have to run for the gang to go on; None: none may leave alone.
    role_minimum: int | None = None
    #: Where it has no card: the number of its node.
    node: int | None = None

    def find_node(self, node_of_card: Ints) -> int | None:
        """Return the number of the job's node: all its cards are on one.

        Args:
            node_of_card: The node of each card of the snapshot.
        """
        return int(node_of_card[self.rows[0]]) if self.rows else self.node


@dataclass(frozen=True)
class SuspendedJob:
    """A job that was suspended because it was idle; its seats are empty."""

    job: str
    #: Of its cards in the snapshot, one per seat.
    rows: tuple[int, ...]
    #: Compute of each seat while it runs.
    milli: int
    #: Memory bytes per seat while it runs.
    sizes: tuple[int, ...]
    #: Since when a program of it waits to work again; 0: none does.
    wanted_ns: int = 0

    def is_before(self, other: SuspendedJob) -> bool:
        """Whether it comes back before the other: it wants to work, and for longer."""
        if not (self.wanted_ns and other.wanted_ns):
            return bool(self.wanted_ns)
        return (self.wanted_ns, self.job) < (other.wanted_ns, other.job)


@dataclass(frozen=True)
class MigrationHold:
    """Seats that are held for a job that moves to them; the job may still run on its old seats."""

    job: str
    shape: Shape
    rows: tuple[int, ...]
    #: Memory bytes per seat.
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ExpectedDemand:
    """The demand that is likely to come: shapes and how often each was seen, most frequent first."""

    shapes: tuple[Shape, ...] = ()
    counts: tuple[float, ...] = ()
    #: Of what is given out, how much comes back while others still come; 0: nothing ends (the pool
    #: only fills).
    returned_pct: int = 100

    @property
    def without_partitions(self) -> ExpectedDemand:
        """The demand without partitions, which another rule places on other cards."""
        if all(shape.profile is None for shape in self.shapes):
            return self
        shapes = list[Shape]()
        counts = list[float]()
        for shape, count in zip(self.shapes, self.counts, strict=True):
            if shape.profile is None:
                shapes.append(shape)
                counts.append(count)
        return replace(self, shapes=tuple(shapes), counts=tuple(counts))
