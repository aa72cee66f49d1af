"""Whether what the scheduler promises is kept: every start it names for a head of the queue, and when that head starts.

A promise may come earlier than it was made; it must not come later for anything of lower rank. Whoever replays with
run times that are exact or too long, one priority and no quota therefore finds none that is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot import ClassKey, Eviction, Placement, Plan, Waiting
from gpupool.simulation.replay import Replay, Watcher
from gpupool.simulation.world import Job, World


@dataclass
class Ledger:
    """By head (a job, or a gang's name): the first and the last start it was promised, and the one it had."""

    first_ns: dict[str, int] = field(default_factory=dict)
    last_ns: dict[str, int] = field(default_factory=dict)
    started_ns: dict[str, int] = field(default_factory=dict)
    put_off: list[tuple[str, int, int]] = field(default_factory=list)
    """(head, promised, promised later on) wherever the second is later than the first."""

    @property
    def late(self) -> list[str]:
        """Heads that started after the first start they were promised."""
        return [head for head, at in self.first_ns.items() if self.started_ns.get(head, at) > at]

    def promised(self, head: str, at_ns: int) -> None:
        self.first_ns.setdefault(head, at_ns)
        if at_ns > self.last_ns.get(head, at_ns):
            self.put_off.append((head, self.last_ns[head], at_ns))
        self.last_ns[head] = at_ns


class PromisedReplay(Replay):
    """A replay that writes promises and starts down in `ledger`."""

    def __init__(self, world: World, watchers: Iterable[Watcher] = (), *, until_ns: int | None = None) -> None:
        self.ledger = Ledger()
        super().__init__(world, (*watchers, _Starts(self.ledger)), until_ns=until_ns)

    def _wake_for(self, plan: Plan, now_ns: int) -> None:
        entries = {waiting.key: waiting for waiting in self.world.snapshot(now_ns).waiting}
        for key, start in plan.starts.items():
            if start.reserved:
                self.ledger.promised(_head(key, entries[key]), start.at_ns)
        super()._wake_for(plan, now_ns)


class _Starts:
    """Hears of starts only."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def moved(self, world: World, before_ns: int, now_ns: int) -> None: ...

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None: ...

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        self._ledger.started_ns.setdefault(job.key.gang or job.id, now_ns)

    def ended(self, job: Job, now_ns: int) -> None: ...

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None: ...


def _head(key: ClassKey, waiting: Waiting) -> str:
    return key.gang or waiting.heads[0]
