"""The same cases on the simulator's replay: the pool is a `World`, and `Replay` makes and applies
the plans.

A replay makes plans until one changes nothing, all at one instant. Whoever is about to end when a
case begins has ended before the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpupool.model.claim import Rejection
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from tests.conformance import play, quota_cases
from tests.conformance.case import Case
from tests.conformance.pool import START_NS, pool_of


class NeverEnds(Exception):
    """More plans than any case needs."""


class _Log:
    """What each plan of a replay did."""

    def __init__(self, world: SimulatedPool, rules: PreemptionRules, most: int) -> None:
        self.placements: list[tuple[int, JobPlacement]] = []
        self.evictions: list[tuple[int, Eviction]] = []
        self._most = most
        self.replay = Replay(world, [self], rules=rules)

    def run(self, now_ns: int) -> bool:
        """Whether it came to rest."""
        try:
            self.replay.play_arrivals((), now_ns)
        except NeverEnds:
            return False
        return True

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        """Nothing depends on the time that passes."""

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        """Every claim is there from the beginning."""

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        """The world knows it."""

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        self.placements.append((self._plan(), placement))

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
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


def _world(before: Snapshot) -> SimulatedPool:
    running = {one.job: _runs(one) for one in before.running}
    world = SimulatedPool(replace(before, waiting=(), running=()), running, quota_cases.NOW_NS)
    for waiting in before.waiting:
        world.enqueue_jobs(_jobs(waiting))
    return world


def _runs(job: RunningJob) -> SimulatedJob:
    key = ClassKey(
        job.tenant, job.priority, job.shape, None, job.gang, job.reservation, job.preemptible
    )
    return SimulatedJob(
        job.job, key, job.shape, job.started_ns, None, None, job.preemptible, run=job, node=0
    )


def _jobs(waiting: WaitingClass) -> Iterator[SimulatedJob]:
    roles = waiting.gang.map_roles() if waiting.gang else {}
    for name, at_ns in zip(waiting.job_ids, waiting.submitted_ns, strict=True):
        shape = roles[name].shape if roles else waiting.shape
        yield SimulatedJob(name, waiting.key, shape, at_ns, None, waiting.gang, waiting.preemptible)
