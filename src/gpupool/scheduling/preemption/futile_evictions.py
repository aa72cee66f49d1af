"""Futile evictions: jobs whose seats would be reclaimed at once, and claims for which none may
leave.

An eviction is worth its loss only if its beneficiary keeps the seats. If two jobs evict each other
in turns, one of those evictions fails this test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.preemption.victims import Victim
from gpupool.scheduling.quota.model_options import list_uses_by_model, select_guaranteed_uses
from gpupool.scheduling.quota.reclaim import ReclaimLot, compute_job_use, divide_by_guarantee
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import ExhaustedQuota, Use
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.snapshot.claims import RunningJob

#: Of a waiting claim: its tenant, its shape, and the least that it will hold.
PendingDemand = tuple[str, Shape, ResourceAmount]


def find_protected_jobs(
    quotas: WorkingQuotas, running: Iterable[RunningJob], waiting: Iterable[PendingDemand]
) -> frozenset[str]:
    """Find the jobs in whose place a waiting claim would be inside its guarantee.

    If a tenant without a guarantee there evicted one of them, that claim would reclaim the seats.
    """
    # Only lots that are partly inside: where one is wholly beyond, evicting it opens no guarantee.
    lots = divide_by_guarantee(quotas.tree, running, quotas.cards)[1]
    if not lots:
        return frozenset()
    asks = list[tuple[str, list[Use]]]()
    for tenant, shape, least in waiting:
        asks.append((tenant, list_uses_by_model(quotas.tree, shape, least)))
    protected = set[str]()
    for lot in lots:
        if _makes_room_inside(quotas.tree, lot, asks):
            protected.update(job.job for job in lot.jobs)
    return frozenset(protected)


def _makes_room_inside(
    tree: QuotaTree, lot: ReclaimLot, asks: Iterable[tuple[str, list[Use]]]
) -> bool:
    # Another guarantor's part does not grow when this lot leaves.
    alike = [(name, uses) for name, uses in asks if tree.has_same_guarantors(name, lot.tenant)]
    before = tree.mark()
    tree.remove_use(lot.tenant, lot.use)
    found = any(select_guaranteed_uses(tree, name, uses) for name, uses in alike)
    tree.rollback(before)
    return found


def is_any_reclaimed_at_once(quotas: WorkingQuotas, tenant: str, victims: Sequence[Victim]) -> bool:
    """Whether a victim of another owner would be inside its guarantee once all of them left.

    Alone each of them borrows: one straddles its tenant's nominal part, the other stands above it.
    Together they leave that part unused, so the next plan would reclaim the seats for one of them,
    and the two claims would evict each other in turns.
    """
    mark = quotas.mark()
    for victim in victims:
        for job in victim.jobs:
            quotas.release_job(job)
    found = False
    for victim in victims:
        tree = quotas.tree
        if victim.tenant not in tree.leaves or tree.has_same_guarantors(tenant, victim.tenant):
            continue
        use = Counter[str]()
        for job in victim.jobs:
            use.update(compute_job_use(job, tree, quotas.cards))
        found = found or not tree.is_borrowing(victim.tenant, use)
    quotas.rollback(mark)
    return found


def has_quota_beside_collectors(
    quotas: WorkingQuotas,
    tenant: str,
    shape: Shape,
    least: ResourceAmount,
    gone: Iterable[RunningJob],
) -> bool:
    """Whether the claim would have quota once these jobs left and all claims that collect quota
    started.

    A claim that collects quota may find an earlier start once they have left. Cards are not looked
    at.
    """
    collected = [one for one in quotas.promised_uses if one.collects]
    if not collected:
        return True
    mark = quotas.mark()
    for job in gone:
        quotas.release_job(job)
    for one in collected:
        quotas.tree.add_use(one.tenant, one.use, firm=one.firm)
    short = list[ExhaustedQuota | None]()
    for side in quotas.list_tree_sides(quotas.tree):
        short.append(side.find_exhausted(tenant, side.compute_claim_use(shape, least)))
    quotas.rollback(mark)
    # The pool itself has no room: that is a lack of cards, which this test leaves out. In the tree
    # of non-preemptible use the pool's rest is what no tenant is guaranteed, and that is a quota.
    total = short[0]
    return (total is None or total.node.parent is None) and not any(short[1:])
