"""Reclaim protection: jobs that an owner reclaims next are kept from the evictions of borrowers.

A claim inside its guarantee may find no victims only because evictions are in progress on the same
cards. If borrowers evicted the other jobs there meanwhile, evictions would always be in progress,
and the owner would wait for ever (decision 0027). So a failed search of an owner is repeated on the
pool as it will be when the evictions have ended, and its victims are kept for this plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from gpupool.scheduling.preemption.candidates import EvictionCandidates
from gpupool.scheduling.preemption.preemptor import PreemptionClaimant, VictimSearch, VictimSet
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.workspace.tentative_placement import TentativePlacement
from gpupool.scheduling.workspace.transaction import PlanningTransaction


class ReclaimProtection:
    """Evictions in progress of one cycle, and the jobs that owners reclaim after them."""

    def __init__(
        self, work: PlanningTransaction, candidates: EvictionCandidates, search: VictimSearch
    ) -> None:
        self._work = work
        self._candidates = candidates
        self._search = search
        #: Jobs that this plan evicts; the snapshot does not show them as leaving yet.
        self._evicted_jobs: list[RunningJob] = []
        #: Beneficiaries that borrow, with the seats that this plan holds for them or gives them.
        self._borrowed_seats: list[tuple[WaitingClass, TentativePlacement]] = []
        #: Equal claims have equal victims, so one search serves all of them.
        self._searched: set[Hashable] = set()

    def record_evictions(self, found: VictimSet) -> None:
        """Record the victims that this plan evicts."""
        for victim in found.victims:
            self._evicted_jobs += victim.jobs

    def record_borrower(self, waiting: WaitingClass, seats: Iterable[TentativePlacement]) -> None:
        """Record the seats of a beneficiary that borrows: an owner may reclaim them in later plans."""
        self._borrowed_seats += [(waiting, one) for one in seats]

    def protect_victims(self, claimant: PreemptionClaimant) -> None:
        """Keep the jobs that the claimant, which found no victims now, will reclaim later."""
        waiting = claimant.waiting
        key = (
            waiting.priority,
            waiting.tenant,
            waiting.shape,
            claimant.asked and claimant.asked.equivalence_key,
        )
        if not self._has_evictions_in_progress() or key in self._searched:
            return
        self._searched.add(key)
        if self._candidates.is_borrowing(waiting, claimant.asked):
            return
        mark = self._work.mark()
        self._settle_evictions()
        borrowers = self._candidates.list_borrowers(waiting, claimant.asked)
        found = self._search.find_settled_victims(claimant, borrowers)
        self._work.rollback(mark)
        if found is not None:
            self._candidates.keep_for_reclaim(found.victims)

    def _has_evictions_in_progress(self) -> bool:
        # Without quotas no claim is inside a guarantee, and no claim reclaims.
        if not self._work.quotas.tree.resources:
            return False
        leaving = self._work.running_jobs.list_beneficiaries()
        return bool(self._borrowed_seats or self._evicted_jobs or leaving)

    def _settle_evictions(self) -> None:
        """Show the pool without the evicted jobs and without the seats of their beneficiaries.

        The seats of beneficiaries inside their guarantee stay: no owner reclaims those.
        """
        for job in (*self._work.running_jobs.list_leaving(), *self._evicted_jobs):
            self._work.board.release_job(job)
            # A traded job counts in no quota since the seats of its beneficiary are held.
            if not self._work.is_traded(job.job):
                self._work.quotas.release_job(job)
        for waiting, one in self._borrowed_seats:
            self._work.board.unhold_seats(one.shape, one.node, one.rows, one.sizes, one.took)
            self._work.quotas.remove_seats(
                waiting.tenant,
                one.rows,
                one.shape.held_milli,
                int(np.sum(one.sizes)),
                firm=not waiting.preemptible,
            )
