"""Collect the waits and the held time of one replay, by job and tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from gpupool.simulation.studies.tune_changes import ReplaySummary


class WaitWatcher:
    """Waits of all jobs, gangs once, and what each tenant held while work came."""

    def __init__(self) -> None:
        self._waits: dict[str, int] = {}
        self._submitted: dict[str, int] = {}
        self._tenant: dict[str, str] = {}
        self._held: dict[str, int] = defaultdict(int)
        self._evictions = 0

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        """Change nothing: held time is added when a job gives its cards back."""

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        if refused is None:
            for job in jobs:
                if job.counts:
                    self._submitted[job.id] = job.submitted_ns
                    self._tenant[job.id] = job.key.tenant

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        if job.counts:
            self._waits.setdefault(job.id, now_ns - job.submitted_ns)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self._add_held_time(job, now_ns)

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self._evictions += 1
        self._add_held_time(job, now_ns)

    def _add_held_time(self, job: SimulatedJob, now_ns: int) -> None:
        assert job.run is not None
        self._held[job.key.tenant] += sum(job.run.milli) * (now_ns - job.run.started_ns)

    def summarize_replay(self, ended_ns: int, span_ns: int) -> ReplaySummary:
        waits: dict[str, int] = {}
        for job, submitted_ns in self._submitted.items():
            # A job that never started has waited until the end, at least.
            waits[job] = self._waits.get(job, ended_ns - submitted_ns)
        return ReplaySummary(
            waits,
            self._submitted,
            self._tenant,
            {name: held // span_ns for name, held in self._held.items()},
            len(self._submitted) - len(self._waits),
            self._evictions,
        )
