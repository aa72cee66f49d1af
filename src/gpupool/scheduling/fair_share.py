"""What each node of the quota tree is due now, and what may be taken of those that hold more than that.

A node's guarantee comes first, as far as it is wanted: held or waited for. What is left goes to its siblings as the
weights do, to each until it has what it wants (max-min fairness); of what the weights leave in parts of a card, the
largest parts become whole ones. Amounts are dominant shares, in millionths of a card (`fairness`).

A preemptible claim that keeps its tenant within its due may take of those over theirs, if their priority is not higher:
so what it took is taken back by nobody who has the same right to it, and none makes room for another in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupool.base.units import WHOLE
from gpupool.model.quota import GPU, MEMORY, WEIGHT, Amount
from gpupool.scheduling.fairness import share_micro
from gpupool.scheduling.quota_node import Node, Use
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.reclaim import Lot, borrowed, in_turn, lots
from gpupool.scheduling.snapshot import Cards, Running
from gpupool.scheduling.usage import MICRO, dominant_micro

Dues = Mapping[int, int]
"""By the number of a node, what it is due."""


def dues(tree: Tree, wants: Mapping[str, Amount]) -> Dues:
    """Of every node, if these tenants want so much in all."""
    size = tree.size.cards * MICRO
    want = dict[int, int]()
    _add_up(tree, tree.root, wants, want)
    found = {tree.root.number: size}
    _share_out(tree, tree.root, want, found)
    return found


def overdrawn(
    tree: Tree, tenant: str, use: Use, running: Iterable[Running], cards: Cards, due: Dues, priority: int
) -> tuple[Lot, ...]:
    """What those hold beyond their due that the tenant's claim may have, in the order to take it.

    Empty where the claim would lift its own tenant over its due. `tree` is as it was when this returns.
    """
    mine = {node.number: node for node in tree.leaves[tenant].path()}
    before = tree.mark()
    tree.take(tenant, use)
    within = {number for number, node in mine.items() if share_micro(node, tree) <= due[number]}
    tree.rollback(before)
    if tree.leaves[tenant].number not in within:
        return ()

    def over(leaf: Node) -> bool:
        """Whether all on its way up to the branch that it shares with the claimant are over, and that one's are not."""
        apart = [node for node in leaf.path() if node.number not in mine]
        shared = next(node for node in leaf.path() if node.number in mine)
        ours = [number for number, node in mine.items() if shared is not node and shared in node.path()]
        return all(share_micro(node, tree) > due[node.number] for node in apart) and within.issuperset(ours)

    found = _lots(tree, tenant, running, cards)
    able = [lot for lot in found if lot.preemptible and max(job.priority for job in lot.jobs) <= priority]
    return in_turn(tree, able, over)


def _lots(tree: Tree, tenant: str, running: Iterable[Running], cards: Cards) -> list[Lot]:
    """Of other tenants, what none but a node above the claimant too guarantees them."""
    alike = {name for name in tree.leaves if tree.guaranteed_alike(tenant, name)}
    free = [lot for lot in lots(running, tree, cards) if lot.tenant in alike]
    rest = borrowed(tree, running, cards)
    free += [lot for name, each in rest.items() if name not in alike for lot in each]
    return [lot for lot in free if lot.tenant != tenant]


def _add_up(tree: Tree, node: Node, wants: Mapping[str, Amount], found: dict[int, int]) -> int:
    """What the node and each below it want, at most what they may hold."""
    if node.tenant:
        asked = wants.get(node.name, Amount())
        want = dominant_micro(asked, tree.size.cards, tree.size.memory_bytes)
    else:
        want = sum(_add_up(tree, one, wants, found) for one in tree.below(node))
    found[node.number] = min(want, _maximum(tree, node))
    return found[node.number]


def _share_out(tree: Tree, node: Node, want: Mapping[int, int], found: dict[int, int]) -> None:
    below = tree.below(node)
    first = {one.number: min(_guarantee(tree, one), want[one.number]) for one in below}
    found |= first
    left = max(0, found[node.number] - sum(first.values()))
    open_ = {one.number: want[one.number] - first[one.number] for one in below if want[one.number] > first[one.number]}
    found |= {number: first[number] + more for number, more in _by_weight(below, open_, left).items()}
    for one in below:
        if not one.tenant:
            _share_out(tree, one, want, found)


def _by_weight(below: Iterable[Node], wants: Mapping[int, int], left: int) -> dict[int, int]:
    """So much among those that want something, to none more than it wants.

    Those of weight 0 have in equal parts what the others leave.
    """
    wanting = [node for node in below if node.number in wants]
    found = _max_min({node.number: node.weight_milli for node in wanting if node.weight_milli}, wants, left)
    left -= sum(found.values())
    return found | _max_min({node.number: WEIGHT for node in wanting if not node.weight_milli}, wants, left)


def _max_min(parts: Mapping[int, int], wants: Mapping[int, int], left: int) -> dict[int, int]:
    """Max-min fair by these weights."""
    weights = dict(parts)
    found = dict[int, int]()
    while weights:
        whole = sum(weights.values())
        full = [number for number, weight in weights.items() if wants[number] * whole <= left * weight]
        if not full:
            return found | _whole_cards({number: left * weight // whole for number, weight in weights.items()}, left)
        for number in full:
            found[number] = wants[number]
            del weights[number]
        left -= sum(wants[number] for number in full)
    return found


def _whole_cards(parts: Mapping[int, int], left: int) -> dict[int, int]:
    """Each part in whole cards; what that leaves over goes to the largest rests, a card each while there is one."""
    found = {number: part // MICRO * MICRO for number, part in parts.items()}
    left -= sum(found.values())
    for number in sorted(parts, key=lambda number: (-(parts[number] % MICRO), number)):
        more = min(left, MICRO) if parts[number] % MICRO else 0
        found[number] += more
        left -= more
    return found


def _guarantee(tree: Tree, node: Node) -> int:
    limits = {r: limit.nominal or 0 for r, limit in node.limits.items()}
    return dominant_micro(Amount(limits.get(GPU, 0), limits.get(MEMORY, 0)), tree.size.cards, tree.size.memory_bytes)


def _maximum(tree: Tree, node: Node) -> int:
    limit = node.limits.get(GPU)
    if limit is None or limit.maximum is None:
        return tree.size.cards * MICRO
    return limit.maximum * MICRO // WHOLE
