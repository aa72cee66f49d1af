"""What the scheduler sees and what it answers: a frozen snapshot in, a plan out.

Cards are columns (NumPy arrays of one length) so that ten thousand of them are one
operation; claims wait in classes of equal rank, tenant and shape, because equal shapes
get equal answers and a queue of a hundred thousand jobs has few of them.
Whoever builds a snapshot (a SQL ledger, Kubernetes objects, a trace) fills the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.model.allocation import Seat
from gpupool.model.claim import Rejection, Shape
from gpupool.model.gang import Gang
from gpupool.model.numa import NumaPart
from gpupool.model.partition import PartitionProfile
from gpupool.model.partition import Placement as Place
from gpupool.model.quota import WEIGHT, Amount, Branch, Quota
from gpupool.model.reservation import Reservation
from gpupool.model.topology import Topology
from gpupool.scheduling.numa_nodes import NumaNodes

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class CardStatus(StrEnum):
    """Whether a card can be given out at all; only OPEN ones can."""

    OPEN = "open"
    NOT_ADOPTED = "not adopted"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


CARD_STATUS = tuple(CardStatus)
"""`Cards.status` holds indices into this."""

LEEWAY_NS = 60 * 10**9
"""A job that its limit ends has given its cards back within this; that is also when `ends` expects it."""


@dataclass(frozen=True)
class Hosts:
    """Processors and main memory, one entry per node; where nothing is known of them, `Cards.hosts` is None."""

    cpu_milli: Ints
    memory_bytes: Ints
    free_cpu_milli: Ints
    free_memory_bytes: Ints
    numa: NumaNodes | None = None


@dataclass(frozen=True)
class Level:
    """One level above the node: which of `domains` each node is in, -1 where the node does not say."""

    name: str
    domains: tuple[str, ...]
    of_node: Ints


@dataclass(frozen=True)
class Cut:
    """A card in partition mode: what it can be cut into (nothing, where nobody can make them), and what is cut now."""

    profiles: tuple[PartitionProfile, ...]
    taken: tuple[Place, ...] = ()
    """A valid set, lowest start first."""

    def plus(self, more: Place) -> Cut:
        return replace(self, taken=tuple(sorted((*self.taken, more))))

    def minus(self, less: Place) -> Cut:
        """Raises ValueError where that piece is not taken."""
        at = self.taken.index(less)
        return replace(self, taken=self.taken[:at] + self.taken[at + 1 :])


@dataclass(frozen=True)
class Cards:
    """Every card of the pool, one column per fact, in a stable order (node, then index)."""

    uuids: tuple[str, ...]
    models: tuple[str, ...]
    """Distinct canonical models; `model` holds indices into it."""
    nodes: tuple[str, ...]
    """Node names; `node` holds indices into it."""
    node_labels: tuple[Mapping[str, str], ...]
    model: Ints
    node: Ints
    status: Ints
    memory_bytes: Ints
    free_milli: Ints
    free_bytes: Ints
    generation: Ints
    """Of each card's row in the ledger: what a plan must name to be applied."""
    hosts: Hosts | None = None
    levels: tuple[Level, ...] = ()
    """From the widest to the narrowest (block, rack)."""
    links: Mapping[int, Topology] = field(default_factory=dict)
    """By node, what joins its cards; a node that is not in it has no known links."""
    vendors: tuple[str, ...] = ()
    """Of each of `models`, its vendor; nothing: as the catalogue has it, `""` where that does not know."""
    cuts: Mapping[int, Cut] = field(default_factory=dict)
    """By row, the cards in partition mode: they take partitions alone, and no other card takes one."""

    def __len__(self) -> int:
        return len(self.uuids)


@dataclass(frozen=True)
class TenantView:
    """A tenant's quota, what it holds now (added up over seats), and where in the quota tree it is."""

    quota: Quota
    held: Amount
    cohort: str | None = None
    """None: right below the pool."""
    weight_milli: int = WEIGHT
    past: int = 0
    """What it held before, faded with age: millionths of a card times seconds (see `usage`)."""


@dataclass(frozen=True)
class Waiting:
    """Claims of one tenant, priority and shape, oldest first.

    `heads` are the oldest few (at most a batch), `count` says how many wait in all.
    """

    tenant: str
    priority: int
    shape: Shape
    heads: tuple[str, ...]
    """Job ids."""
    count: int
    oldest_ns: int
    heads_ns: tuple[int, ...] = ()
    """When each head was submitted; left out, every head is as old as the oldest."""
    seconds: int | None = None
    """How long such a job runs at most (its limit, or what the past has taught); None is unknown."""
    gang: Gang | None = None
    """The entry is one gang: `heads` are its members that do not run yet, `shape` that of its first role."""
    reservation: str | None = None
    """The name of the reservation that it may use, beside what everybody may."""
    preemptible: bool = False
    """It may be made to give its seats back and wait again; so it may use what others are guaranteed."""
    guessed: bool = False
    """`seconds` is what the past has taught: no limit ends the job then."""

    @classmethod
    def of(cls, key: ClassKey, heads: Sequence[str], count: int, heads_ns: Sequence[int], gang: Gang | None) -> Waiting:
        """A class with its heads, in the order of their turns, and when each was submitted."""
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
        gang, may_leave = self.gang.id if self.gang else "", self.preemptible
        shape, seconds = self.shape, self.seconds
        return ClassKey(self.tenant, self.priority, shape, seconds, gang, self.reservation, may_leave, self.guessed)


class ClassKey(NamedTuple):
    """What makes two waiting claims one class: the same answer, but for their age."""

    tenant: str
    priority: int
    shape: Shape
    seconds: int | None = None
    gang: str = ""
    reservation: str | None = None
    preemptible: bool = False
    guessed: bool = False


@dataclass(frozen=True)
class Running:
    """A job that holds seats: what could be given back, when, and at what price."""

    job: str
    tenant: str
    priority: int
    rows: tuple[int, ...]
    """Of its cards in the snapshot, one per seat."""
    milli: tuple[int, ...]
    sizes: tuple[int, ...]
    """Memory bytes per seat."""
    shape: Shape
    started_ns: int
    ends_ns: int | None = None
    """When its limit ends it, or the past says it will end; None is unknown."""
    saved_ns: int | None = None
    """When it last saved its state (a checkpoint); None: never, all its work would be lost."""
    preemptible: bool = False
    gang: str = ""
    reservation: str | None = None
    leaving_for: str = ""
    """It was told to give its seats back to this job or gang, and is still saving its work."""
    places: tuple[Place, ...] = ()
    """Of partitions, which piece of each of `rows`."""
    numa: tuple[NumaPart, ...] = ()
    """What it has of its node's NUMA nodes."""
    guessed: bool = False
    """`ends_ns` is what the past says: no limit ends it then."""
    role: str = ""
    """In its gang."""
    least: int | None = None
    """So many members of its role have to run for the gang to go on; None: none may leave alone."""


@dataclass(frozen=True)
class Kept:
    """Seats that nobody else gets until this job sits on them: it is moved there, and may still run where it was."""

    job: str
    shape: Shape
    rows: tuple[int, ...]
    sizes: tuple[int, ...]
    """Memory bytes per seat."""


@dataclass(frozen=True)
class Expected:
    """What is likely to be asked for next: shapes and how often each was seen, most frequent first."""

    shapes: tuple[Shape, ...] = ()
    counts: tuple[float, ...] = ()
    returned_pct: int = 100
    """Of what is given out, how much comes back while others still come; 0: nothing ends (the pool only fills)."""

    @property
    def shares(self) -> Expected:
        """Without partitions, which go to other cards by another rule."""
        if all(shape.profile is None for shape in self.shapes):
            return self
        kept = [pair for pair in zip(self.shapes, self.counts, strict=True) if pair[0].profile is None]
        return replace(self, shapes=tuple(shape for shape, _ in kept), counts=tuple(count for _, count in kept))


@dataclass(frozen=True)
class Snapshot:
    generation: int
    cards: Cards
    tenants: Mapping[str, TenantView]
    waiting: tuple[Waiting, ...]
    policy: str = "default"
    """The name of the rule of placement (`scheduling.policies`)."""
    running: tuple[Running, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    expected: Expected = field(default_factory=Expected)
    promised: Mapping[ClassKey, Start] = field(default_factory=dict)
    """`starts` of the plan before this one, as far as they are remembered: they are kept where that can be."""
    cohorts: Mapping[str, Branch] = field(default_factory=dict)
    """The quota tree above the tenants."""
    kept: tuple[Kept, ...] = ()
    """Where jobs are being moved to."""
    owed: tuple[str, ...] = ()
    """Jobs and gangs for which others were told to leave, the first told for first; also once those have left."""


@dataclass(frozen=True)
class Eviction:
    """A job that gives back its seats so that another may start; what it loses is work since it was last saved."""

    job: str
    beneficiary: str
    """The job, or the gang, that needs the seats."""
    lost_seconds: int
    why: str


@dataclass(frozen=True)
class Start:
    """When a class that waits will start, as far as is known now; `rows`: the cards kept for it then."""

    at_ns: int
    rows: tuple[int, ...] = ()
    reserved: bool = False
    """Cards are kept for it, and nothing of lower rank delays it."""
    milli: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    """How much is kept of each of the rows."""
    claim: str = ""
    """Whose start it is, where cards are kept for it: a job of the class, or its gang."""
    firm: bool = False
    """It is a promise: no claim that comes later delays it, whatever its rank. Else it is an estimate."""
    hosts: tuple[tuple[str, int, int], ...] = ()
    """Of a promise, what is kept beside the cards: node, processors in thousandths, main memory in bytes."""
    devices: tuple[str, ...] = ()
    """Of a promise, the names of the cards in `rows`: those may be others in the next snapshot."""

    @property
    def by_ns(self) -> int:
        """What people are told: a promise holds with what ends of jobs take."""
        return self.at_ns + LEEWAY_NS if self.firm else self.at_ns


@dataclass(frozen=True)
class Scored:
    """The score that won, and what it is made of (`score_parts`): for records alone."""

    score: int
    parts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Placement:
    """One job gets these seats; `generations` are those of its cards' rows as they were read."""

    job: str
    node: str
    seats: tuple[Seat, ...]
    generations: tuple[int, ...]
    why: str
    """What decided it, in a few words, for `show` and `explain`."""
    gang: str = ""
    """Placements of one gang are written together or not at all."""
    numa: tuple[NumaPart, ...] = ()
    """Where its processors and main memory come from; nothing where it asks for none or nothing is known."""
    scored: Scored | None = None
    """Only of a board that keeps scores."""


@dataclass(frozen=True)
class Effort:
    """What deciding cost, counted and so the same on every machine: for tests and metrics."""

    rows: int = 0
    """Cards looked at, every look counted."""
    classes: int = 0
    attempts: int = 0
    """Heads taken from the queue, placed or not."""
    jobs: int = 0
    """Running jobs looked at, every look counted."""


@dataclass(frozen=True)
class Plan:
    """What to write, naming the generation that was read, and why the rest waits."""

    generation: int
    placements: tuple[Placement, ...]
    rejections: Mapping[ClassKey, Rejection]
    """By `Waiting.key`, for every class of which something still waits."""
    effort: Effort = field(default_factory=Effort, compare=False)
    evictions: tuple[Eviction, ...] = ()
    starts: Mapping[ClassKey, Start] = field(default_factory=dict)
