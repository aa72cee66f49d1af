"""The same cases on the simulator's replay: the pool is a `World`, and `Replay` makes and applies the plans.

A replay makes plans until one changes nothing, all at one instant. Whoever is about to end when a case begins has ended
before the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpupool.model.claim import Rejection
from gpupool.scheduling.snapshot import ClassKey, Eviction, Placement, Running, Snapshot, Waiting
from gpupool.scheduling.victims import PreemptionRules
from gpupool.simulation.replay import Replay
from gpupool.simulation.world import Job, World
from tests.conformance import play, quota_cases
from tests.conformance.case import Case
from tests.conformance.pool import START_NS, pool_of


class NeverEnds(Exception):
    """More plans than any case needs."""


class _Log:
    """What each plan of a replay did."""

    def __init__(self, world: World, rules: PreemptionRules, most: int) -> None:
        self.placements: list[tuple[int, Placement]] = []
        self.evictions: list[tuple[int, Eviction]] = []
        self._most = most
        self.replay = Replay(world, [self], rules=rules)

    def run(self, now_ns: int) -> bool:
        """Whether it came to rest."""
        try:
            self.replay.run((), now_ns)
        except NeverEnds:
            return False
        return True

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        """Nothing depends on the time that passes."""

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        """Every claim is there from the beginning."""

    def ended(self, job: Job, now_ns: int) -> None:
        """The world knows it."""

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        self.placements.append((self._plan(), placement))

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self.evictions.append((self._plan(), eviction))

    def _plan(self) -> int:
        if self.replay.outcome.cycles > self._most:
            raise NeverEnds
        return self.replay.outcome.cycles


def replayed(case: Case) -> play.Ending:
    """How a case of KAI-Scheduler's form ends."""
    pool = pool_of(case)
    for name in pool.leaving:
        pool.world.running[name].left_ns = 0
    log = _Log(pool.world, play.rules_of(case), play.MOST_ROUNDS)
    ending = play.Ending(settled=log.run(START_NS))
    ending.nodes = pool.nodes()
    ending.evicted.update(pool.claim_of[one.job] for _, one in log.evictions)
    return ending


def first_plan(case: quota_cases.Case) -> tuple[quota_cases.Outcome, bool]:
    """What the first plan does to a case of Kueue's form, and whether the replay came to rest."""
    before = quota_cases.snapshot(case)
    world = _world(before)
    log = _Log(world, quota_cases.rules_of(case), quota_cases.MOST_PLANS)
    rests = log.run(quota_cases.NOW_NS)
    placements = [one for number, one in log.placements if number == 1]
    evictions = [one for number, one in log.evictions if number == 1]
    return quota_cases.outcome(before.cards, placements, evictions), rests


def _world(before: Snapshot) -> World:
    running = {one.job: _runs(one) for one in before.running}
    world = World(replace(before, waiting=(), running=()), running, quota_cases.NOW_NS)
    for waiting in before.waiting:
        world.enqueue(_jobs(waiting))
    return world


def _runs(job: Running) -> Job:
    key = ClassKey(job.tenant, job.priority, job.shape, None, job.gang, job.reservation, job.preemptible)
    return Job(job.job, key, job.shape, job.started_ns, None, None, job.preemptible, run=job, node=0)


def _jobs(waiting: Waiting) -> Iterator[Job]:
    roles = waiting.gang.role_of() if waiting.gang else {}
    for name, at_ns in zip(waiting.heads, waiting.heads_ns, strict=True):
        shape = roles[name].shape if roles else waiting.shape
        yield Job(name, waiting.key, shape, at_ns, None, waiting.gang, waiting.preemptible)
