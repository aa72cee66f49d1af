"""The order of the queue: whose turn is next.

Claims with a promised start come first (`engine.promises`). Then the order is: higher priority;
beneficiaries of evictions, the one whose victims left last first; claims inside their tenant's
guarantee before claims that borrow; the tenant that stands lowest in the quota tree; the oldest
claim. Where borrowed quota is reclaimed, a claim that borrows does not go before a claim inside its
guarantee, whatever its priority (`guaranteed_claims`): the owner would evict it at once.

The standing of a node among its siblings is its use of the pool divided by its weight: its dominant
share (the larger of its parts of the pool's compute and memory; Ghodsi et al., Dominant Resource
Fairness, NSDI 2011), taken through the tree from the root down (Bhattacharya et al., Hierarchical
Scheduling for Diverse Datacenter Workloads, SoCC 2013). Past use counts too, decayed
(`usage_decay`); present use counts as if it were held for `HORIZON_S` more. Under saturation the
lowest is always served, so card time follows the weights, except for one claim times the horizon.
While claims are placed a tenant's standing only rises. A rank that was right once is right or too
low, so it is checked again when it comes up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.quota import GPU, MEMORY, WEIGHT, ResourceAmount
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode
from gpupool.scheduling.quota.usage_decay import compute_dominant_micro
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.snapshot import TenantView

#: Seconds for which present use counts ahead. Longer is calmer: a tenant that comes late does not
#: take every returned card until it has caught up. Shorter follows the weights more closely.
HORIZON_S = 3600

#: Above the use of any node that has a weight: a node of weight 0 comes after all its siblings.
WEIGHTLESS = 1 << 100

#: From the node right below the pool down to the tenant; lower goes first.
Standing = tuple[int, ...]

#: Place of a claim that is no beneficiary of an eviction.
NO_TURN = 1 << 62

#: Place of the first claim with a promised start; those behind it have the next places, up to -1.
FIRST_PROMISE = -(1 << 62)

#: Added to the place of a beneficiary that borrows, where another one is inside its guarantee.
_AFTER_OWED = 1 << 61

#: Lower goes first: minus priority (at most the floor), place among beneficiaries, borrowing, minus
#: its own priority, standing, submitted, job id (which makes the order total).
Rank = tuple[int, int, bool, int, Standing, int, str]


def rank(
    waiting: WaitingClass,
    head: int,
    borrowing: bool,
    stands: Standing = (),
    owed: int = NO_TURN,
    floor: int | None = None,
) -> Rank:
    """Return the rank of a class with its head number `head` next.

    A claim with a promised start (its place is below 0) goes before all others: its cards are held
    for it anyway.

    Args:
        waiting: the class.
        head: the number of the head in the class.
        borrowing: whether the head would borrow quota.
        stands: standing of the tenant.
        owed: place of the claim among beneficiaries and promised starts.
        floor: the priority that the claim's turn may not pass.
    """
    submitted = waiting.submitted_ns[head] if waiting.submitted_ns else waiting.oldest_ns
    own = waiting.priority
    # The first entry is lower than any priority's, so priority does not pass a promise.
    if owed < 0:
        return (FIRST_PROMISE, owed, borrowing, -own, stands, submitted, waiting.job_ids[head])
    if floor is not None and own >= floor:
        # A borrowing beneficiary still goes before claims that are no beneficiaries (NO_TURN is
        # larger), and after all beneficiaries inside their guarantees, whose places are below 2^61.
        after = owed if owed == NO_TURN else _AFTER_OWED + owed
        return (-floor, after, borrowing, -own, stands, submitted, waiting.job_ids[head])
    return (-own, owed, borrowing, -own, stands, submitted, waiting.job_ids[head])


def compute_standing(tree: QuotaTree, tenant: str) -> Standing:
    """Compute where the tenant stands now."""
    path = list[int]()
    for node in tree.leaves[tenant].list_ancestors():
        if node.parent is not None:
            path.append(compute_weighted_use(node, tree))
    # From the top: cohorts are compared first, then tenants within one (hierarchical DRF).
    return tuple(reversed(path))


def compute_weighted_use(node: QuotaNode, tree: QuotaTree) -> int:
    """Compute past and coming use of a node in millionths of a card times seconds, by its weight."""
    # Integers throughout: floats would make the order of equal tenants depend on the machine.
    use = node.past + compute_share_micro(node, tree) * HORIZON_S
    return use * WEIGHT // node.weight_milli if node.weight_milli else WEIGHTLESS + use


def compute_share_micro(node: QuotaNode, tree: QuotaTree) -> int:
    """Compute the node's present part of the pool in millionths of a card.

    The larger of its parts of compute and of memory.
    """
    held = ResourceAmount(node.held.get(GPU, 0), node.held.get(MEMORY, 0))
    return compute_dominant_micro(held, tree.size.cards, tree.size.memory_bytes)


@dataclass(frozen=True)
class QuotaHeadroom:
    """What a tenant may still take before its maximum; None is no limit, below 0 it holds too much."""

    milli: int | None
    size: int | None

    def covers(self, amount: ResourceAmount) -> bool:
        """Whether the amount fits into both limits."""
        return _is_within(self.milli, amount.gpu_milli) and _is_within(
            self.size, amount.memory_bytes
        )


UNLIMITED = QuotaHeadroom(None, None)


def compute_own_headroom(tenant: TenantView) -> QuotaHeadroom:
    """Compute the headroom by the tenant's own quota alone."""
    quota = tenant.quota
    held = tenant.held
    return QuotaHeadroom(
        _subtract_held(quota.maximum_milli, held.gpu_milli),
        _subtract_held(quota.maximum_memory_bytes, held.memory_bytes),
    )


def compute_headroom(tree: QuotaTree, tenant: str) -> QuotaHeadroom:
    """Compute the headroom by every quota on the path from the tenant to the pool."""
    return QuotaHeadroom(tree.get_room(tenant, GPU), tree.get_room(tenant, MEMORY))


def find_tightest(budgets: Iterable[QuotaHeadroom]) -> QuotaHeadroom:
    """Return the headroom that is inside all of these."""
    milli, size = zip(*((one.milli, one.size) for one in budgets), strict=True)
    return QuotaHeadroom(find_smallest(milli), find_smallest(size))


def is_over_guarantee(tenant: TenantView, amount: ResourceAmount) -> bool:
    """Whether taking that much more goes over what the tenant's own quota guarantees."""
    return not tenant.quota.guarantees_total(tenant.held + amount)


def _is_within(limit: int | None, amount: int) -> bool:
    return limit is None or amount <= max(limit, 0)


def find_smallest(limits: Iterable[int | None]) -> int | None:
    """Return the smallest limit; None where there is no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


def _subtract_held(maximum: int | None, held: int) -> int | None:
    return None if maximum is None else maximum - held
