"""Jobs that an owner reclaims after evictions in progress are kept from borrowers."""

from __future__ import annotations

from dataclasses import replace

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.preemption.candidates import EvictionCandidates
from gpupool.scheduling.preemption.preemptor import PreemptionClaimant, VictimSearch
from gpupool.scheduling.preemption.reclaim_protection import ReclaimProtection
from gpupool.scheduling.preemption.victims import EvictionBudgets, PreemptionRules
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.transaction import PlanningTransaction
from tests.support.preemption_builders import NOW, asked, one_each
from tests.support.scheduling_builders import cards, tenant, waiting, whole

OWNER = waiting("owner", want=whole(2), tenant="nlp")
BORROWER = waiting("borrower", want=whole(), tenant="vision", priority=100)


def list_candidates_after(claimant: WaitingClass, leaving_for: str) -> list[str]:
    """Whom the borrower may evict of two cards that are guaranteed to nlp and held by another."""
    pool, jobs = one_each(cards("2xH200"), 5, 2)
    leaves = (replace(jobs[0], beneficiary=leaving_for), jobs[1])
    held = replace(tenant(0, None), held=ResourceAmount(2000, 0))
    views = {"nlp": tenant(2000, None), "vision": tenant(0, None), "other": held}
    before = replace(asked((pool, leaves), OWNER, BORROWER), tenants=views)
    rules = PreemptionRules()
    work = PlanningTransaction(before, PlanningState(before))
    candidates = EvictionCandidates(work, rules, NOW, lambda: None, tuple)
    search = VictimSearch(work, EvictionBudgets(rules))
    free = work.free.milli.tolist()
    protection = ReclaimProtection(work, candidates, search)
    protection.protect_victims(PreemptionClaimant(claimant, claimant.job_ids[0], None))
    assert work.free.milli.tolist() == free, "the search leaves the pool as it was"
    found = candidates.list_lower_priority(BORROWER, None)
    return [job for one in found for job in one.job_ids]


def test_a_job_that_an_owner_reclaims_next_is_kept_from_borrowers() -> None:
    assert list_candidates_after(OWNER, leaving_for="elsewhere") == []


def test_no_job_is_kept_where_no_eviction_is_in_progress() -> None:
    assert list_candidates_after(OWNER, leaving_for="") == ["old-0", "old-1"]


def test_no_job_is_kept_for_a_claim_that_would_borrow_itself() -> None:
    assert list_candidates_after(BORROWER, leaving_for="elsewhere") == ["old-1"]
