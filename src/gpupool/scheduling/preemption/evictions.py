"""Evictions of one cycle: which claims may evict, at what cost, and how their seats are held.

A claimant's seats are held from the eviction of its victims until it is placed. Each cycle finds
them again among what is free and what `RunningJob.beneficiary` it returns, before other claims of
its priority have a turn (`beneficiaries`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.filtering.feasibility import FITS
from gpupool.scheduling.preemption.candidates import EvictionCandidates
from gpupool.scheduling.preemption.futile_evictions import (
    PendingDemand,
    has_quota_beside_collectors,
    is_any_reclaimed_at_once,
)
from gpupool.scheduling.preemption.preemptor import (
    PreemptionClaimant,
    VictimSearch,
    VictimSet,
    make_evictions,
)
from gpupool.scheduling.preemption.reclaim_protection import ReclaimProtection
from gpupool.scheduling.preemption.victims import (
    EvictionBudgets,
    PreemptionRules,
    Victim,
    add_spare_members,
    list_jobs,
    list_victims,
    select_evictable,
)
from gpupool.scheduling.reasons import messages
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.snapshot.plan import Eviction, PlannedStart
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
)
from gpupool.scheduling.workspace.transaction import PlanningTransaction

#: After so many sorts of claims without victims, later sorts do not evict before they do.
MOST_IN_VAIN = 16

#: So many of a tenant's own jobs are tried at most, one more each time, until others can give the
#: rest.
MOST_OWN = 8


class EvictionPlanner:
    """Finds victims for claims without room, in the order of the queue."""

    def __init__(
        self,
        work: PlanningTransaction,
        rules: PreemptionRules,
        now_ns: int,
        held: Callable[[], Bools | None] = lambda: None,
        asks: Callable[[], Iterable[PendingDemand]] = tuple,
    ) -> None:
        """Take the working copy and the rules.

        Args:
            work: the transaction of the cycle.
            rules: which jobs may be evicted.
            now_ns: the instant of the snapshot.
            held: cards held for a claim; jobs on them leave for no other claim.
            asks: what waits; of a gang its minimum.
        """
        self.evictions: list[Eviction] = []
        self.starts: dict[ClassKey, PlannedStart] = {}
        self.rules = rules
        self._work = work
        self._now_ns = now_ns
        self._budgets = EvictionBudgets(rules)
        self._candidates = EvictionCandidates(work, rules, now_ns, held, asks)
        self._preemptor = VictimSearch(work, self._budgets)
        self._failed_searches: set[Hashable] = set()
        #: By tenant the sorts that lack quota and find no victim; they hold back no other tenant.
        self._failed_quota_searches: dict[str, set[Hashable]] = {}
        self.reclaim_protection = ReclaimProtection(work, self._candidates, self._preemptor)

    def make_room(
        self, waiting: WaitingClass, job: str, asked: PendingMembers | None = None
    ) -> bool:
        """Evict jobs for the claim; return whether its seats are free once they have left.

        The seats are then held for it. Jobs may also be leaving for it from an earlier cycle.
        """
        if (
            not self.rules.enabled
            or not self._work.running_jobs.has_evictable_jobs
            or not self._is_allowed(waiting, asked)
        ):
            return False
        claimant = PreemptionClaimant(waiting, job, asked)
        if self._find_room(claimant):
            return True
        if self.rules.reclaims:
            self.reclaim_protection.protect_victims(claimant)
        return False

    def _find_room(self, claimant: PreemptionClaimant) -> bool:
        waiting = claimant.waiting
        job = claimant.job
        asked = claimant.asked
        vain = self._make_search_key(waiting, asked)
        comes = self._work.running_jobs.is_awaited_by(job)
        if (full := self._list_tenants_in_full_quota(waiting, asked)) is not None:
            return self._make_quota_room(claimant, full)
        # A claim for which jobs leave already is looked at in any case: its seats must be held
        # again.
        if not comes and (
            vain in self._failed_searches or len(self._failed_searches) >= MOST_IN_VAIN
        ):
            return False
        for candidates in self._candidates.iterate_rounds(waiting, asked):
            # An upper bound, without any simulation: most searches in a full pool end here.
            worth = comes or self._budgets.can_free(
                candidates, self._compute_shortage(waiting, asked)
            )
            if (
                worth
                and (found := self._find_for_cards(claimant, candidates))
                and self._is_lasting(claimant, found)
            ):
                self._record_victims(claimant, found)
                return True
        self._failed_searches.add(vain)
        return False

    def _is_lasting(self, claimant: PreemptionClaimant, found: VictimSet) -> bool:
        """Whether the claimant will get the seats that are left for it.

        An earlier claim that collects quota may start sooner once these jobs have left, and takes
        quota first then. It cannot collect what another tenant is guaranteed.
        """
        waiting = claimant.waiting
        least = self._candidates.compute_least(claimant.waiting, claimant.asked)
        quotas = self._work.quotas
        gone = list_jobs(found.victims)
        if not gone or not quotas.is_borrowing(waiting.tenant, waiting.shape, least):
            return True
        if is_any_reclaimed_at_once(quotas, waiting.tenant, found.victims):
            return False
        return has_quota_beside_collectors(quotas, waiting.tenant, waiting.shape, least, gone)

    def _make_quota_room(self, claimant: PreemptionClaimant, full: frozenset[str]) -> bool:
        """The same for a claim without room in a quota: these tenants must hold less there."""
        waiting = claimant.waiting
        asked = claimant.asked
        vain = self._make_search_key(waiting, asked)
        in_quota = self._failed_quota_searches.setdefault(waiting.tenant, set())
        if vain in self._failed_searches or vain in in_quota or len(in_quota) >= MOST_IN_VAIN:
            return False
        inside = not self._candidates.is_borrowing(waiting, asked)
        back = (
            self._candidates.list_borrowers(waiting, asked)
            if inside and self.rules.reclaims
            else []
        )
        lower = self._candidates.list_lower_priority(waiting, asked)
        below = [one for one in lower if one.tenant in full]
        below.sort(key=lambda victim: (victim.priority, victim.key))
        others = full - {waiting.tenant}
        over = list[Victim]()
        # A tenant at its own maximum gains no room there from the jobs of others.
        if others:
            overdrawn = self._candidates.list_overdrawn(waiting, asked)
            over = [one for one in overdrawn if one.tenant in others]
        # Guarantee, then priority, then fair share (decision 0027).
        for candidates in (back, below, over):
            found = (
                self._preemptor.find_reclaimed_victims(claimant, candidates) if candidates else None
            )
            if found is not None and self._is_lasting(claimant, found):
                self._record_victims(claimant, found)
                return True
        if (
            others
            and (found := self._find_own_first(claimant, below))
            and self._is_lasting(claimant, found)
        ):
            self._record_victims(claimant, found)
            return True
        # Without borrowers its own quota stands in the way. Such failures are counted by tenant:
        # MOST_IN_VAIN of them must not end the searches of other tenants.
        (self._failed_searches if back else in_quota).add(vain)
        return False

    def _find_own_first(
        self, claimant: PreemptionClaimant, below: Sequence[Victim]
    ) -> VictimSet | None:
        """The fewest of its own tenant's jobs, in order, without which it may reclaim from others,
        and those.
        """
        waiting = claimant.waiting
        asked = claimant.asked
        own = [one for one in below if one.tenant == waiting.tenant][:MOST_OWN]
        for count in range(1, len(own) + 1):
            first = add_spare_members(own[:count])
            mark = self._work.mark()
            # Released first, because reclaim is judged by what its tenant holds: with less of its
            # own it may be inside its guarantee.
            for one in first:
                self._work.release_jobs(one.jobs)
            others = (
                self._candidates.list_borrowers(waiting, asked),
                self._candidates.list_overdrawn(waiting, asked),
            )
            self._work.rollback(mark)
            for candidates in others:
                if candidates and (
                    found := self._preemptor.find_reclaimed_victims(claimant, candidates, first)
                ):
                    return found
        return None

    def _find_for_cards(
        self, claimant: PreemptionClaimant, candidates: Sequence[Victim]
    ) -> VictimSet | None:
        """Victims for cards; where quota lacks beside free cards, the cheapest of all candidates."""
        found = self._preemptor.find_victims(claimant, candidates)
        waiting = claimant.waiting
        asked = claimant.asked
        if found is not None or self._work.has_quota(
            waiting.tenant, waiting.shape, self._candidates.compute_least(waiting, asked)
        ):
            return found
        return self._preemptor.find_reclaimed_victims(
            claimant, sorted(candidates, key=lambda victim: victim.key)
        )

    def list_evictable(self, priority: int) -> tuple[list[RunningJob], int]:
        """List all jobs that may ever leave for that priority, and when their protected starts are
        over.
        """
        # As of the instant at which every protected start of today is over.
        protected = self.rules.protected_s * NANOS_PER_SECOND if self.rules.enabled else 0
        every = list_victims(self._work.snapshot.running, self._now_ns) if protected else []
        found = select_evictable(every, priority, self.rules, self._now_ns + protected)
        jobs = list_jobs(found)
        return jobs, max((job.started_ns + protected for job in jobs), default=0)

    def add_eviction_rejections(
        self, rejections: Mapping[ClassKey, Rejection]
    ) -> dict[ClassKey, Rejection]:
        """Replace the rejections of claims that wait for evictions in progress."""
        told = dict(rejections)
        for key, start in self.starts.items():
            if key in told:
                sentence = messages.describe_evictions(len(start.rows), self.rules.grace_s)
                told[key] = replace(told[key], sentence=sentence, dominant=RejectionReason.RESERVED)
        return told

    def _is_allowed(self, waiting: WaitingClass, asked: PendingMembers | None) -> bool:
        """No job leaves for members beyond a gang's minimum, nor for a claim without a card."""
        return waiting.shape.count > 0 if asked is None else bool(asked.needed_count)

    def _list_tenants_in_full_quota(
        self, waiting: WaitingClass, asked: PendingMembers | None
    ) -> frozenset[str] | None:
        """Tenants whose quota, or cohort's quota, has no room for the claim; None where only cards
        lack.

        A tenant at its own maximum makes room with its own jobs of lower priority. At a cohort's
        maximum it does so with those of its siblings, and inside its guarantee with what they
        borrowed.
        """
        return self._work.quotas.list_tenants_in_exhausted_node(
            waiting.tenant, waiting.shape, self._candidates.compute_least(waiting, asked)
        )

    def _compute_shortage(self, waiting: WaitingClass, asked: PendingMembers | None) -> int:
        """The compute that must come back at least, in milli-devices."""
        shapes = [waiting.shape] if asked is None else [role.shape for role in asked.roles.values()]
        usable = np.logical_or.reduce([self._work.get_fit(shape).fixed == FITS for shape in shapes])
        free = int(np.maximum(self._work.free.milli[usable], 0).sum())
        return self._candidates.compute_least(waiting, asked).gpu_milli - free

    def _make_search_key(self, waiting: WaitingClass, asked: PendingMembers | None) -> Hashable:
        """Equal for claims of one rank that would look in vain for the same victims."""
        what = waiting.shape if asked is None else asked.equivalence_key
        return waiting.priority, waiting.tenant, what

    def _record_victims(self, claimant: PreemptionClaimant, found: VictimSet) -> None:
        waiting = claimant.waiting
        asked = claimant.asked
        quotas = self._work.quotas
        least = self._candidates.compute_least(waiting, asked)
        guaranteed = bool(quotas.tree.resources) and not quotas.is_borrowing(
            waiting.tenant, waiting.shape, least
        )
        self._candidates.remove_evicted(found.victims)
        self._budgets.record_evictions(found.victims)
        self.evictions += make_evictions(found, claimant, guaranteed=guaranteed)
        self.reclaim_protection.record_evictions(found)
        if quotas.tree.resources and not guaranteed:
            self.reclaim_protection.record_borrower(waiting, found.seats)
        leaving = list_jobs(found.victims)
        # Earlier victims too: what they hold counts as the claimant's from now on. Else two claims
        # of one tenant would evict twice what it is guaranteed (decision 0027).
        leaving += self._work.running_jobs.list_leaving_for(claimant.job)
        self._work.trade_seats(waiting.tenant, found.seats, leaving)
        rows = list[int]()
        sizes = list[int]()
        milli = list[int]()
        for seated in found.seats:
            rows += seated.rows.tolist()
            sizes += seated.sizes.tolist()
            milli += [seated.shape.held_milli] * len(seated.rows)
        start = PlannedStart(
            self._compute_start_ns(claimant),
            tuple(rows),
            reserved=True,
            milli=tuple(milli),
            sizes=tuple(sizes),
            claim=claimant.job,
        )
        # The first head's start: a class may evict for several heads in one plan.
        self.starts.setdefault(waiting.key, start)

    def _compute_start_ns(self, claimant: PreemptionClaimant) -> int:
        """When the last victim has left, evicted now or before.

        A job evicted before got its grace time then. So the start that was promised then stays, and
        does not move on with each cycle.
        """
        latest = self._now_ns + self.rules.grace_s * NANOS_PER_SECOND
        before = self._work.running_jobs.list_leaving_for(claimant.job)
        if not before or any(one.beneficiary == claimant.job for one in self.evictions):
            return latest
        promised = self._work.snapshot.previous_starts.get(claimant.waiting.key)
        if promised is not None and promised.reserved and self._now_ns < promised.at_ns < latest:
            latest = promised.at_ns
        ends = [latest if job.ends_ns is None else min(latest, job.ends_ns) for job in before]
        # At least a second ahead: a start that is due now would be taken for one that can be
        # placed.
        return max(self._now_ns + NANOS_PER_SECOND, *ends)
