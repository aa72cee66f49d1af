"""Tell a simulated pool's policy what it may know of the claims to come.

`online` is what users get: the learner of a real pool (`scheduling.scoring.demand_knowledge`)
counts claims as they come. `oracle` counts the whole trace before its first claim; no pool can, and
the paper's FGD does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpupool.model.claim import Rejection, Shape
from gpupool.scheduling.scoring.demand_knowledge import DemandKnowledge
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool

#: Words of `--knowledge` and of results.json.
ONLINE = "online"
ORACLE = "oracle"
CHOICES = (ONLINE, ORACLE)


class Foreknowledge:
    """The demand that a policy expects, as a watcher of a replay.

    `whole` is what the trace asks for in all; only `oracle` uses it.
    """

    def __init__(self, choice: str, whole: ExpectedDemand, capacity_milli: int) -> None:
        self._whole = whole if choice == ORACLE else None
        self._known = DemandKnowledge(capacity_milli)

    @property
    def expected_demand(self) -> ExpectedDemand:
        return self._known.expected_demand if self._whole is None else self._whole

    def note_arrival(self, shape: Shape, jobs: int = 1) -> None:
        self._known.record_arrival(shape, jobs)

    def note_start(self, shape: Shape) -> None:
        self._known.record_start(shape)

    def note_release(self, shape: Shape) -> None:
        self._known.record_release(shape)

    # --- as a watcher of a replay ----------------------------------------------------------

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        """Change nothing: knowledge ages by claims, not by time."""

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        """Learn from admitted jobs; equal jobs that come at once are one claim."""
        # A refused shape never runs: a policy that kept room for it would keep it for nothing.
        if refused is not None:
            return
        for shape, count in Counter(job.shape for job in jobs).items():
            self.note_arrival(shape, count)

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        self.note_start(job.shape)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self.note_release(job.shape)

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self.note_release(job.shape)
