"""Whose turn it is.

The order of the queue: claims whose start is promised (`promises`), then higher priority, then claims for which others
were told to leave (`owed`, first told first), then claims inside what their tenant is guaranteed before those that
borrow, then whoever stands lowest in the quota tree, then the oldest. Where borrowed quota is taken back, a claim that
borrows does not go before one inside its guarantee, whatever its priority (`floors`): the owner would tell it to leave
at once.

Where a node stands beside its siblings is what it had of the pool, divided by its weight: its dominant share (the
larger of its parts of the pool's compute and of its memory; Ghodsi et al., Dominant Resource Fairness, NSDI 2011),
taken through the tree from the root down (Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter
Workloads, SoCC 2013). What was held before counts too, faded (`usage`); what is held now counts as if it were held for
one `HORIZON_S` more. Under saturation the lowest is always served, so card time goes as the weights do, but for one
claim times the horizon. While claims are placed a tenant only rises, so a rank that was right once is right or too low:
it is looked at again when it comes up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.quota import GPU, MEMORY, WEIGHT, Amount
from gpupool.scheduling.quota_node import Node
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.snapshot import TenantView, Waiting
from gpupool.scheduling.usage import dominant_micro

HORIZON_S = 3600
"""For so long what is held now counts ahead. Longer is calmer (who comes up late does not take every card that is given
back until it has caught up), shorter is nearer to the weights."""

WEIGHTLESS = 1 << 100
"""Above whatever a node with a weight has had: one of weight 0 comes after all its siblings."""

Standing = tuple[int, ...]
"""From right below the pool down to the tenant; lower goes first."""

NOT_OWED = 1 << 62
"""As a place among those for whom others were told to leave."""

PROMISED = -(1 << 62)
"""As such a place, that of the first claim whose start is promised; those behind it have the next ones, up to -1."""

_AFTER_OWED = 1 << 61
"""Added to the place of a claim that is owed seats too, but borrows, where another is owed inside its guarantee."""

Rank = tuple[int, int, bool, int, Standing, int, str]
"""Lower goes first: minus priority (at most the floor), place among those who are owed seats, borrowing, minus its own
priority, standing, submitted, job id (which makes it total)."""


def rank(
    waiting: Waiting,
    head: int,
    borrowing: bool,
    stands: Standing = (),
    owed: int = NOT_OWED,
    floor: int | None = None,
) -> Rank:
    """Where the class stands with its head number `head` next; `floor`: the priority that its turn may not pass.

    A claim whose start is promised (its place is below 0) goes before everybody: its cards are kept for it anyway.
    """
    submitted = waiting.heads_ns[head] if waiting.heads_ns else waiting.oldest_ns
    own = waiting.priority
    if owed < 0:
        return (PROMISED, owed, borrowing, -own, stands, submitted, waiting.heads[head])
    if floor is not None and own >= floor:
        after = owed if owed == NOT_OWED else _AFTER_OWED + owed
        return (-floor, after, borrowing, -own, stands, submitted, waiting.heads[head])
    return (-own, owed, borrowing, -own, stands, submitted, waiting.heads[head])


def standing(tree: Tree, tenant: str) -> Standing:
    """Where the tenant stands now."""
    path = [weighted(node, tree) for node in tree.leaves[tenant].path() if node.parent is not None]
    return tuple(reversed(path))


def weighted(node: Node, tree: Tree) -> int:
    """Past and coming use of one node in millionths of a card times seconds, divided by its weight."""
    use = node.past + share_micro(node, tree) * HORIZON_S
    return use * WEIGHT // node.weight_milli if node.weight_milli else WEIGHTLESS + use


def share_micro(node: Node, tree: Tree) -> int:
    """What the node holds now as a part of the pool, in millionths of a card: the larger of compute and memory."""
    held = Amount(node.held.get(GPU, 0), node.held.get(MEMORY, 0))
    return dominant_micro(held, tree.size.cards, tree.size.memory_bytes)


@dataclass(frozen=True)
class Budget:
    """What a tenant may still take before its maximum; None is no limit, below 0 it holds too much."""

    milli: int | None
    size: int | None

    def covers(self, amount: Amount) -> bool:
        return _covers(self.milli, amount.gpu_milli) and _covers(self.size, amount.memory_bytes)


UNLIMITED = Budget(None, None)


def budget(tenant: TenantView) -> Budget:
    """By the tenant's own quota alone."""
    quota, held = tenant.quota, tenant.held
    return Budget(_rest(quota.maximum_milli, held.gpu_milli), _rest(quota.maximum_memory_bytes, held.memory_bytes))


def room(tree: Tree, tenant: str) -> Budget:
    """By every quota on the path from the tenant to the pool."""
    return Budget(tree.room(tenant, GPU), tree.room(tenant, MEMORY))


def tightest(budgets: Iterable[Budget]) -> Budget:
    """What is inside all of them."""
    milli, size = zip(*((one.milli, one.size) for one in budgets), strict=True)
    return Budget(smallest(milli), smallest(size))


def borrows(tenant: TenantView, amount: Amount) -> bool:
    """Whether taking that much more goes over what the tenant's own quota guarantees."""
    return not tenant.quota.guarantees(tenant.held + amount)


def _covers(limit: int | None, amount: int) -> bool:
    return limit is None or amount <= max(limit, 0)


def smallest(limits: Iterable[int | None]) -> int | None:
    """None where there is no limit among them."""
    return min((limit for limit in limits if limit is not None), default=None)


def _rest(maximum: int | None, held: int) -> int | None:
    return None if maximum is None else maximum - held
