"""Check that promised starts are kept: when each was promised, and when the job started.

A start may come earlier than promised; nothing of lower rank may make it later. So a replay with
limits that are exact or too long, one priority and no quota has no late start; tests/properties
and the bench `backfill` rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement, Plan
from gpupool.simulation.replay.replay import Replay, ReplayWatcher
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool


@dataclass
class PromiseRecord:
    """By head of the queue (a job, or a gang): its first and last promised start, and its start."""

    first_ns: dict[str, int] = field(default_factory=dict)
    last_ns: dict[str, int] = field(default_factory=dict)
    started_ns: dict[str, int] = field(default_factory=dict)
    #: (head, promised, promised later on) wherever the second is later than the first.
    postponements: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def late_heads(self) -> list[str]:
        """Heads that started later than first promised."""
        return [head for head, at in self.first_ns.items() if self.started_ns.get(head, at) > at]

    def record_promise(self, head: str, at_ns: int) -> None:
        self.first_ns.setdefault(head, at_ns)
        if at_ns > self.last_ns.get(head, at_ns):
            self.postponements.append((head, self.last_ns[head], at_ns))
        self.last_ns[head] = at_ns


class PromiseReplay(Replay):
    """A replay that records every promise and start in `promises`."""

    def __init__(
        self,
        world: SimulatedPool,
        watchers: Iterable[ReplayWatcher] = (),
        *,
        until_ns: int | None = None,
    ) -> None:
        # Before `super().__init__`: the watcher below needs it.
        self.promises = PromiseRecord()
        super().__init__(world, (*watchers, _StartWatcher(self.promises)), until_ns=until_ns)

    def _schedule_wake(self, plan: Plan, now_ns: int) -> None:
        # A cycle that places nothing names the starts of what waits; earlier plans of the same
        # instant are not promises yet, for the next cycle may start the head at once.
        entries = {waiting.key: waiting for waiting in self.world.take_snapshot(now_ns).waiting}
        for key, start in plan.starts.items():
            if start.reserved:
                self.promises.record_promise(_name_head(key, entries[key]), start.at_ns)
        super()._schedule_wake(plan, now_ns)


class _StartWatcher:
    """A watcher of starts only."""

    def __init__(self, ledger: PromiseRecord) -> None:
        self._ledger = ledger

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None: ...

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None: ...

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        self._ledger.started_ns.setdefault(job.key.gang or job.id, now_ns)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None: ...

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None: ...


def _name_head(key: ClassKey, waiting: WaitingClass) -> str:
    return key.gang or waiting.job_ids[0]
