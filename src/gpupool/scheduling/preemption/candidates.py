"""Candidates for eviction: lower priority, borrowed quota, and use above a fair share.

A candidate never runs on cards held for a claim, and is never leaving already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.preemption.futile_evictions import (
    PendingDemand,
    find_protected_jobs,
)
from gpupool.scheduling.preemption.victims import (
    ABOVE_ALL_PRIORITIES,
    PreemptionRules,
    Victim,
    list_victims,
    remove_victims,
    select_evictable,
)
from gpupool.scheduling.quota.fair_share import FairShares, compute_fair_shares
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
    sum_least_amount,
)
from gpupool.scheduling.workspace.transaction import PlanningTransaction


class EvictionCandidates:
    """Victims that may leave for a claim, by the reason for which they may.

    Args:
        work: the transaction of the cycle.
        rules: which jobs may be evicted.
        now_ns: the instant of the snapshot.
        held: cards held for a claim; jobs on them leave for no other claim.
        asks: what waits; of a gang its minimum.
    """

    def __init__(
        self,
        work: PlanningTransaction,
        rules: PreemptionRules,
        now_ns: int,
        held: Callable[[], Bools | None],
        asks: Callable[[], Iterable[PendingDemand]],
    ) -> None:
        self._work = work
        self._rules = rules
        self._now_ns = now_ns
        self._find_held_cards = held
        self._list_demand = asks
        #: Jobs in whose place a claim would be inside its guarantee, and the quota changes before
        #: that.
        self._protected_jobs: tuple[int, frozenset[str]] | None = None
        self._victims: list[Victim] | None = None
        #: The held cards at the last look, and the victims that do not run on them.
        self._evictable: tuple[bytes, list[Victim]] | None = None
        #: Of those, the victims that may leave for a priority.
        self._lower_by_priority: dict[int, list[Victim]] = {}
        self._fair_shares: FairShares | None = None
        #: Jobs that no claim that borrows evicts, because an owner reclaims them next.
        self._kept_for_reclaim: set[str] = set()

    def keep_for_reclaim(self, victims: Iterable[Victim]) -> None:
        """Let only claims inside their guarantee evict these victims in this plan."""
        for one in victims:
            self._kept_for_reclaim.update(one.job_ids)

    def is_borrowing(self, waiting: WaitingClass, asked: PendingMembers | None) -> bool:
        """Whether the claim would go over its tenant's guarantee."""
        least = self.compute_least(waiting, asked)
        return self._work.quotas.is_borrowing(waiting.tenant, waiting.shape, least)

    def _remove_kept(
        self, victims: Sequence[Victim], waiting: WaitingClass, asked: PendingMembers | None
    ) -> list[Victim]:
        """The victims that the claim may evict beside those kept for a reclaim."""
        kept = self._kept_for_reclaim
        if not kept or not self.is_borrowing(waiting, asked):
            return list(victims)
        return [one for one in victims if kept.isdisjoint(one.job_ids)]

    def remove_evicted(self, victims: Iterable[Victim]) -> None:
        """Remove victims that the plan evicts, and those that leave because of them."""
        self._victims = remove_victims(self._victims or (), victims)
        self._evictable = None

    def compute_least(self, waiting: WaitingClass, asked: PendingMembers | None) -> ResourceAmount:
        return (
            self._work.compute_least(waiting.shape)
            if asked is None
            else sum_least_amount(self._work, asked)
        )

    def iterate_rounds(
        self, waiting: WaitingClass, asked: PendingMembers | None
    ) -> Iterator[Sequence[Victim]]:
        """Candidates: those of lower priority; then also borrowers, twice as many each time."""
        lower = self.list_lower_priority(waiting, asked)
        yield lower
        for more in (self.list_borrowers, self.list_overdrawn):
            found = more(waiting, asked)
            # Reclaim has an order (who is most over its share first), so as few as possible are
            # offered. Doubling finds that number in as many searches as it has binary digits.
            for count in _iterate_doubled(len(found)):
                merged = {id(victim): victim for victim in lower}
                merged.update((id(victim), victim) for victim in found[:count])
                yield list(merged.values())

    def list_lower_priority(
        self, waiting: WaitingClass, asked: PendingMembers | None
    ) -> Sequence[Victim]:
        """Candidates of lower priority.

        None inside its own tenant's guarantee: it would reclaim the seats at once. Where one node
        guarantees what both hold, the seats only change hands.
        """
        quotas = self._work.quotas
        running = self._work.snapshot.running
        every = self._list_all()
        lower = self._lower_by_priority.get(waiting.priority)
        if lower is None:
            lower = select_evictable(every, waiting.priority, self._rules, self._now_ns)
            self._lower_by_priority[waiting.priority] = lower
        if lower and quotas.has_limits:
            borrowed = quotas.list_borrowing_jobs(running)
            beside = self._list_tenants_beside(waiting.tenant, quotas.tree.leaves)
            may = borrowed - self.find_protected_jobs() if borrowed else borrowed
            allowed = list[Victim]()
            for one in lower:
                if one.tenant in beside or may.issuperset(one.job_ids):
                    allowed.append(one)
            lower = allowed
        return self._remove_kept(lower, waiting, asked)

    def _list_tenants_beside(self, tenant: str, others: Iterable[str]) -> frozenset[str]:
        """Tenants that have the same guarantors: neither owns what the other one holds."""
        tree = self._work.quotas.tree
        return frozenset(name for name in others if tree.has_same_guarantors(tenant, name))

    def find_protected_jobs(self) -> frozenset[str]:
        """Jobs whose evictor would have to give the seats back to another claim at once."""
        quotas = self._work.quotas
        # Each placement changes who would be inside, so the answer is kept for one state of the
        # tree.
        if self._protected_jobs is None or self._protected_jobs[0] != quotas.tree.changes:
            found = find_protected_jobs(quotas, self._work.snapshot.running, self._list_demand())
            self._protected_jobs = quotas.tree.changes, found
        return self._protected_jobs[1]

    def list_borrowers(self, waiting: WaitingClass, asked: PendingMembers | None) -> list[Victim]:
        """Victims on quota that the claimant's tenant may reclaim, in order."""
        if not (self._work.quotas.tree.resources and self._rules.reclaims):
            return []
        quotas = self._work.quotas
        running = self._work.snapshot.running
        lots = quotas.list_reclaimable_lots(
            waiting.tenant, waiting.shape, self.compute_least(waiting, asked), running
        )
        by_job = _index_by_job(self._list_all())
        return [by_job[lot.jobs[0].job] for lot in lots if lot.jobs[0].job in by_job]

    def list_overdrawn(self, waiting: WaitingClass, asked: PendingMembers | None) -> list[Victim]:
        """Victims above their tenant's fair share, for a preemptible claim within its own tenant's."""
        if not (self._rules.fair and self._rules.reclaims and waiting.preemptible):
            return []
        past_start = _index_by_job(self._list_interruptible())
        # Before shares are computed, which costs a walk over all that waits and runs.
        if all(one.tenant == waiting.tenant for one in past_start.values()):
            return []
        if self._fair_shares is None:
            # Once a plan: what is wanted is held or waits, and placing moves it from one to the
            # other.
            self._fair_shares = compute_fair_shares(self._work.quotas.tree, sum_wanted(self._work))
        quotas = self._work.quotas
        running = self._work.snapshot.running
        least = self.compute_least(waiting, asked)
        found = quotas.list_overdrawn_lots(
            waiting.tenant, waiting.shape, least, running, self._fair_shares, waiting.priority
        )
        kept = self.find_protected_jobs() if found else frozenset[str]()
        alike = self._list_tenants_beside(waiting.tenant, {lot.tenant for lot in found})
        victims = list[Victim]()
        for lot in found:
            name = lot.jobs[0].job
            if name in past_start and (lot.tenant in alike or name not in kept):
                victims.append(past_start[name])
        return self._remove_kept(victims, waiting, asked)

    def _list_interruptible(self) -> list[Victim]:
        """Victims that may be interrupted at all and are past their protected start."""
        return select_evictable(self._list_all(), ABOVE_ALL_PRIORITIES, self._rules, self._now_ns)

    def _list_all(self) -> list[Victim]:
        """Victims that are not leaving and do not run on cards held for a claim."""
        if self._victims is None:
            self._victims = list_victims(self._work.snapshot.running, self._now_ns)
        held = self._find_held_cards()
        # Compared by value: the timeline changes its array in place as holds come and go.
        promised = b"" if held is None else held.tobytes()
        if self._evictable is None or self._evictable[0] != promised:
            stay = set() if held is None else set(np.flatnonzero(held).tolist())
            self._evictable = promised, [one for one in self._victims if stay.isdisjoint(one.rows)]
            #: Of those, the victims that may leave for a priority.
            self._lower_by_priority = {}
        return self._evictable[1]


def sum_wanted(work: PlanningTransaction) -> dict[str, ResourceAmount]:
    """Add up by tenant what it holds and waits for."""
    found = {name: view.held for name, view in work.snapshot.tenants.items()}
    for one in work.snapshot.waiting:
        roles = one.gang.map_roles() if one.gang else {}
        jobs = one.job_ids
        shapes = Counter(roles[job].shape for job in jobs) if roles else {one.shape: one.count}
        for shape, count in shapes.items():
            least = work.compute_least(shape)
            found[one.tenant] += ResourceAmount(least.gpu_milli * count, least.memory_bytes * count)
    return found


def _index_by_job(victims: Iterable[Victim]) -> Mapping[str, Victim]:
    return {job.job: victim for victim in victims for job in victim.jobs}


def _iterate_doubled(most: int) -> Iterator[int]:
    """1, 2, 4 and so on, at last `most`."""
    count = 1
    while count < most:
        yield count
        count *= 2
    if most:
        yield most
