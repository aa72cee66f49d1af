"""The output of a cycle: placements, rejections, evictions and planned starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.allocation import Seat
from gpupool.model.claim import Rejection
from gpupool.model.numa import NumaPart
from gpupool.scheduling.snapshot.claims import ClassKey

#: A job that its limit ends has given its cards back within this; that is also when `ends` expects
#: it.
LEEWAY_NS = 60 * NANOS_PER_SECOND


@dataclass(frozen=True)
class Eviction:
    """A job that must release its seats for another; it loses the work since its checkpoint."""

    job: str
    #: The job, or the gang, that needs the seats.
    beneficiary: str
    lost_seconds: int
    why: str


@dataclass(frozen=True)
class PlannedStart:
    """When a waiting class will start as far as is known; `rows` are the cards held for it then."""

    at_ns: int
    rows: tuple[int, ...] = ()
    #: Cards are kept for it, and nothing of lower rank delays it.
    reserved: bool = False
    milli: tuple[int, ...] = ()
    #: How much is kept of each of the rows.
    sizes: tuple[int, ...] = ()
    #: Whose start it is, where cards are kept for it: a job of the class, or its gang.
    claim: str = ""
    #: It is a promise: no claim that comes later delays it, whatever its rank. Else it is an
    #: estimate.
    firm: bool = False
    #: Of a promise, what is kept beside the cards: node, processors in thousandths, main memory in
    #: bytes.
    hosts: tuple[tuple[str, int, int], ...] = ()
    #: Of a promise, the names of the cards in `rows`: those may be others in the next snapshot.
    devices: tuple[str, ...] = ()

    @property
    def latest_ns(self) -> int:
        """The instant that is shown to people: a promise includes the leeway of job ends."""
        return self.at_ns + LEEWAY_NS if self.firm else self.at_ns


@dataclass(frozen=True)
class PlacementScore:
    """The winning score and its parts (`score_parts`); only for records."""

    score: int
    parts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class JobPlacement:
    """The seats of one job; `generations` are those of its cards' rows as they were read."""

    job: str
    node: str
    seats: tuple[Seat, ...]
    generations: tuple[int, ...]
    #: What decided it, in a few words, for `show` and `explain`.
    why: str
    #: Placements of one gang are written together or not at all.
    gang: str = ""
    #: Where its processors and main memory come from; nothing where it asks for none or nothing is
    #: known.
    numa: tuple[NumaPart, ...] = ()
    #: Only of a board that keeps scores.
    score: PlacementScore | None = None


@dataclass(frozen=True)
class PlanningEffort:
    """What a plan cost, counted and therefore equal on every machine; for tests and metrics."""

    #: Cards looked at, every look counted.
    rows: int = 0
    classes: int = 0
    #: Heads taken from the queue, placed or not.
    attempts: int = 0
    #: Running jobs looked at, every look counted.
    jobs: int = 0


@dataclass(frozen=True)
class Plan:
    """What to write, with the generation that was read, and why the rest waits."""

    generation: int
    placements: tuple[JobPlacement, ...]
    #: By `Waiting.key`, for every class of which something still waits.
    rejections: Mapping[ClassKey, Rejection]
    effort: PlanningEffort = field(default_factory=PlanningEffort, compare=False)
    evictions: tuple[Eviction, ...] = ()
    starts: Mapping[ClassKey, PlannedStart] = field(default_factory=dict)
