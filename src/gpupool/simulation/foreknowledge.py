"""What a simulated pool knows of the claims to come: what a pool would know at that moment, or all of its trace.

`online` is what users get: the learner that a pool has (`scheduling.knowledge`) hears claims as they come. `oracle`
counted the whole trace before its first claim; no pool can, and the paper's FGD does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpupool.model.claim import Rejection, Shape
from gpupool.scheduling.knowledge import Knowledge
from gpupool.scheduling.snapshot import Eviction, Expected, Placement
from gpupool.simulation.world import Job, World

ONLINE, ORACLE = "online", "oracle"
CHOICES = (ONLINE, ORACLE)


class Foreknowledge:
    """`expected` at this moment. `whole` is what the trace asks for in all; hears a replay as a watcher does."""

    def __init__(self, choice: str, whole: Expected, capacity_milli: int) -> None:
        self._whole = whole if choice == ORACLE else None
        self._known = Knowledge(capacity_milli)

    @property
    def expected(self) -> Expected:
        return self._known.expected if self._whole is None else self._whole

    def claim_came(self, shape: Shape, jobs: int = 1) -> None:
        self._known.claim_came(shape, jobs)

    def claim_started(self, shape: Shape) -> None:
        self._known.claim_started(shape)

    def claim_gave_back(self, shape: Shape) -> None:
        self._known.claim_gave_back(shape)

    # --- as a watcher of a replay ----------------------------------------------------------

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        """Knowledge ages by claims, not by time."""

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        """What a pool refuses it does not learn from; jobs alike that come at once are one claim."""
        if refused is None:
            for shape, count in Counter(job.shape for job in jobs).items():
                self.claim_came(shape, count)

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        self.claim_started(job.shape)

    def ended(self, job: Job, now_ns: int) -> None:
        self.claim_gave_back(job.shape)

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self.claim_gave_back(job.shape)
