"""Fair shares: what each node of the quota tree is due, and what may be taken from nodes above
theirs.

A node's guarantee comes first, as far as it is wanted (held or waited for). The rest goes to its
siblings by weight, to each until it has what it wants (max-min fairness). Parts of a card that the
weights leave become whole cards, the largest parts first. Amounts are dominant shares in millionths
of a card (`base.fairness`).

A preemptible claim that keeps its tenant within its fair share may take from tenants above theirs
if their priority is not higher. A tenant with the same right cannot take the seats back, so two
tenants never evict each other in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from gpupool.base.units import WHOLE
from gpupool.model.quota import GPU, MEMORY, WEIGHT, ResourceAmount
from gpupool.scheduling.quota.queue_order import compute_share_micro
from gpupool.scheduling.quota.reclaim import (
    ReclaimLot,
    list_borrowed_lots,
    list_lots,
    order_by_turn,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode, Use
from gpupool.scheduling.quota.usage_decay import MICRO_PER_CARD, compute_dominant_micro
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob

#: The fair share of each node, by its number, in millionths of a card.
FairShares = Mapping[int, int]


def compute_fair_shares(tree: QuotaTree, wants: Mapping[str, ResourceAmount]) -> FairShares:
    """Compute the fair share of every node if these tenants want so much in all."""
    size = tree.size.cards * MICRO_PER_CARD
    want = dict[int, int]()
    _compute_wants(tree, tree.root, wants, want)
    found = {tree.root.number: size}
    _distribute(tree, tree.root, want, found)
    return found


def list_overdrawn_lots(
    tree: QuotaTree,
    tenant: str,
    use: Use,
    running: Iterable[RunningJob],
    cards: CardTable,
    due: FairShares,
    priority: int,
) -> tuple[ReclaimLot, ...]:
    """Return what tenants hold beyond their fair share that the claim may take, in the order to
    take it.

    Empty where the claim would lift its own tenant above its fair share. `tree` is unchanged on
    return.

    Args:
        tree: the quotas as they are now.
        tenant: the claimant's tenant.
        use: what the claim takes.
        running: the candidates.
        cards: the cards of the pool.
        due: the fair share of each node.
        priority: the claim's priority; jobs above it are left alone.
    """
    mine = {node.number: node for node in tree.leaves[tenant].list_ancestors()}
    before = tree.mark()
    tree.add_use(tenant, use)
    within = set[int]()
    for number, node in mine.items():
        if compute_share_micro(node, tree) <= due[number]:
            within.add(number)
    tree.rollback(before)
    if tree.leaves[tenant].number not in within:
        return ()

    def over(leaf: QuotaNode) -> bool:
        """Whether all nodes up to the branch shared with the claimant are above their fair share,
        and those between the claimant and that branch are not.
        """
        apart = [node for node in leaf.list_ancestors() if node.number not in mine]
        shared = next(node for node in leaf.list_ancestors() if node.number in mine)
        for number, node in mine.items():
            below = shared is not node and shared in node.list_ancestors()
            if below and number not in within:
                return False
        # Again before each lot: `order_by_turn` has removed those that were taken before.
        return all(compute_share_micro(node, tree) > due[node.number] for node in apart)

    found = _list_candidate_lots(tree, tenant, running, cards)
    able = [lot for lot in found if lot.preemptible and lot.priority <= priority]
    return order_by_turn(tree, able, over)


def _list_candidate_lots(
    tree: QuotaTree, tenant: str, running: Iterable[RunningJob], cards: CardTable
) -> list[ReclaimLot]:
    """Lots of other tenants that only a node above the claimant too guarantees."""
    alike = frozenset(filter(partial(tree.has_same_guarantors, tenant), tree.leaves))
    free = [lot for lot in list_lots(running, tree, cards) if lot.tenant in alike]
    rest = list_borrowed_lots(tree, running, cards)
    free += [lot for name, each in rest.items() if name not in alike for lot in each]
    return [lot for lot in free if lot.tenant != tenant]


def _compute_wants(
    tree: QuotaTree, node: QuotaNode, wants: Mapping[str, ResourceAmount], found: dict[int, int]
) -> int:
    """What the node and each node below it want, at most their maximum."""
    if node.tenant:
        asked = wants.get(node.name, ResourceAmount())
        want = compute_dominant_micro(asked, tree.size.cards, tree.size.memory_bytes)
    else:
        want = sum(_compute_wants(tree, one, wants, found) for one in tree.list_children(node))
    found[node.number] = min(want, _compute_maximum(tree, node))
    return found[node.number]


def _distribute(
    tree: QuotaTree, node: QuotaNode, want: Mapping[int, int], found: dict[int, int]
) -> None:
    below = tree.list_children(node)
    first = {one.number: min(_compute_guarantee(tree, one), want[one.number]) for one in below}
    found |= first
    left = max(0, found[node.number] - sum(first.values()))
    open_ = {
        one.number: want[one.number] - first[one.number]
        for one in below
        if want[one.number] > first[one.number]
    }
    found |= {
        number: first[number] + more
        for number, more in _divide_by_weight(below, open_, left).items()
    }
    for one in below:
        if not one.tenant:
            _distribute(tree, one, want, found)


def _divide_by_weight(
    below: Iterable[QuotaNode], wants: Mapping[int, int], left: int
) -> dict[int, int]:
    """Divide `left` among nodes that want something, to none more than it wants.

    Nodes of weight 0 get equal parts of what the others leave.
    """
    wanting = [node for node in below if node.number in wants]
    found = _divide_max_min(
        {node.number: node.weight_milli for node in wanting if node.weight_milli}, wants, left
    )
    left -= sum(found.values())
    return found | _divide_max_min(
        {node.number: WEIGHT for node in wanting if not node.weight_milli}, wants, left
    )


def _divide_max_min(
    parts: Mapping[int, int], wants: Mapping[int, int], left: int
) -> dict[int, int]:
    """Divide by max-min fairness with these weights."""
    weights = dict(parts)
    found = dict[int, int]()
    while weights:
        whole = sum(weights.values())
        # wants / weight <= left / whole, without fractions: amounts are exact on every machine.
        full = [number for number in weights if wants[number] * whole <= left * weights[number]]
        if not full:
            # Water filling ends: nodes that get less than they want share the rest by weight.
            rest = {number: left * weight // whole for number, weight in weights.items()}
            return found | _round_to_cards(rest, left)
        for number in full:
            found[number] = wants[number]
            del weights[number]
        left -= sum(wants[number] for number in full)
    return found


def _round_to_cards(parts: Mapping[int, int], left: int) -> dict[int, int]:
    """Round parts to whole cards; the rest goes to the largest remainders, at most one card each."""
    found = dict[int, int]()
    for number, part in parts.items():
        found[number] = part // MICRO_PER_CARD * MICRO_PER_CARD
    left -= sum(found.values())
    # Largest remainder method (Hamilton): jobs take whole cards, so a due of 1.5 cards would be
    # reached by no tenant. Equal remainders go to the lower number, so that the division is
    # deterministic.
    for number in sorted(parts, key=lambda number: (-(parts[number] % MICRO_PER_CARD), number)):
        more = min(left, MICRO_PER_CARD) if parts[number] % MICRO_PER_CARD else 0
        found[number] += more
        left -= more
    return found


def _compute_guarantee(tree: QuotaTree, node: QuotaNode) -> int:
    limits = {r: limit.nominal or 0 for r, limit in node.limits.items()}
    return compute_dominant_micro(
        ResourceAmount(limits.get(GPU, 0), limits.get(MEMORY, 0)),
        tree.size.cards,
        tree.size.memory_bytes,
    )


def _compute_maximum(tree: QuotaTree, node: QuotaNode) -> int:
    limit = node.limits.get(GPU)
    if limit is None or limit.maximum is None:
        return tree.size.cards * MICRO_PER_CARD
    return limit.maximum * MICRO_PER_CARD // WHOLE
