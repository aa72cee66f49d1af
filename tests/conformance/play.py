"""A case played on the engine: plans are made and applied until one changes nothing.

Who is told to leave has left before the next plan is made, and waits again; what was about to end
has ended by then. Seconds pass between plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.beneficiaries import EvictionBeneficiaries
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.transaction import PlanningTransaction
from tests.conformance.case import Case
from tests.conformance.pool import START_NS, Pool, pool_of

MOST_ROUNDS = 20
"""A case that still changes after so many never ends: each has fewer claims than that."""
ROUND_NS = 10 * 10**9


@dataclass
class Ending:
    """How a case ended: where the members of each claim run, who was evicted how often, and after
    how many plans."""

    settled: bool = False
    """The last plan changed nothing."""
    rounds: int = 0
    """Plans that changed something."""
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By claim, one per member that runs, sorted."""
    evicted: Counter[str] = field(default_factory=Counter)
    """By claim, evictions of its members."""


class Player:
    """A pool on its way: plans are made and applied one after the other."""

    def __init__(self, pool: Pool, rules: PreemptionRules) -> None:
        self.pool = pool
        self.now_ns = START_NS
        self.told: Counter[str] = Counter()
        """By claim, in how many plans jobs were told to leave for it."""
        self.placed: dict[str, int] = {}
        """By claim that started, its priority."""
        self._rules = rules
        self._owed = EvictionBeneficiaries()
        self._board: PlanningState | None = None
        self.ending = Ending()

    def play(self) -> Ending:
        """Until nothing changes, or it is clear that it never ends."""
        while self.ending.rounds < MOST_ROUNDS:
            if not self.round():
                self.ending.settled = True
                break
            self.ending.rounds += 1
        self.ending.nodes = self.pool.nodes()
        return self.ending

    def round(self) -> bool:
        """One plan, made and applied; whether anything changed."""
        snapshot = self.snapshot()
        plan = cycle(
            snapshot, self.now_ns, board=self._board_of(snapshot), rules=self._rules, said=False
        )
        self.pool.world.promised = plan.starts
        self._evict(plan.evictions)
        self._place(plan.placements)
        left = self.pool.end_those_who_leave(self.now_ns)
        self.now_ns += ROUND_NS
        return bool(plan.placements or plan.evictions or left)

    def quotas(self, seen: Snapshot) -> WorkingQuotas:
        """Of that snapshot."""
        return PlanningTransaction(seen, self._board_of(seen).follow(seen)).quotas

    def _board_of(self, snapshot: Snapshot) -> PlanningState:
        self._board = self._board or PlanningState(snapshot)
        return self._board

    def snapshot(self) -> Snapshot:
        """With those who are about to end as a pool's ledger names them: they leave, and for
        nobody."""
        seen = self.pool.world.take_snapshot(self.now_ns)
        ending = self.pool.leaving
        running = tuple(
            replace(job, beneficiary=job.job) if job.job in ending else job for job in seen.running
        )
        return replace(
            seen,
            running=running if ending else seen.running,
            beneficiaries=self._owed.list_claims(self.now_ns),
        )

    def _evict(self, evictions: Iterable[Eviction]) -> None:
        world, evictions = self.pool.world, tuple(evictions)
        self.told.update({eviction.beneficiary for eviction in evictions})
        for eviction in evictions:
            self._owed.add_eviction(eviction.job, eviction.beneficiary)
            job = world.release_job(eviction.job, self.now_ns)
            self._owed.record_departure(eviction.job, self.now_ns)
            world.enqueue_jobs([job], again=True)
            self.ending.evicted[self.pool.claim_of[eviction.job]] += 1

    def _place(self, placements: Iterable[JobPlacement]) -> None:
        for placement in placements:
            job = self.pool.world.place_job(placement, self.now_ns)
            self.placed[placement.gang or placement.job] = job.key.priority
            self._owed.remove_claim(placement.gang or placement.job)


def play(case: Case) -> Ending:
    """What the engine makes of the case."""
    return Player(pool_of(case), rules_of(case)).play()


def rules_of(case: Case) -> PreemptionRules:
    """Who may be evicted in the case."""
    evicts = {"reclaim", "preempt"} & set(case.acts)
    return PreemptionRules(
        enabled=bool(evicts),
        reclaims="reclaim" in evicts,
        # without weights elsewhere, what no queue is guaranteed is nobody's due
        fair=any(part.weight for part in (*case.tenants.values(), *case.cohorts.values())),
        per_hour=None,
        protected_s=0,
        grace_s=0,
    )
