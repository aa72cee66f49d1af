"""The quota tree as people see it: what every node may hold, holds, borrows and lends, and what is due to it."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.model.tenant import Principal
from gpupool.scheduling.fairness import share_micro
from gpupool.scheduling.free import Free
from gpupool.scheduling.quota_node import Node
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.snapshot import Snapshot
from gpupool.scheduling.usage import MICRO
from gpupool.wire.people import QuotaNodeOut, QuotaTreeOut, QuotaUseOut

_HOUR_MICRO = 3600 * MICRO


def quota_tree(snapshot: Snapshot, caller: Principal) -> QuotaTreeOut:
    """The whole tree for an admin; for others their own tenant's node."""
    tree = Quotas(snapshot, Free(snapshot.cards)).tree
    found = [_out(node, tree, due) for node, due in _down(tree, tree.root, 1.0)]
    if caller.sees_all:
        return QuotaTreeOut(nodes=found)
    return QuotaTreeOut(nodes=[node for node in found if (node.kind, node.name) == ("tenant", caller.tenant)])


def _down(tree: Tree, node: Node, due: float) -> Iterator[tuple[Node, float]]:
    """Nodes with the part of the pool that is due to them if everybody is busy, each after its parent."""
    yield node, due
    below = tree.below(node)
    total = sum(child.weight_milli for child in below)
    for child in sorted(below, key=lambda one: (one.tenant, one.name)):
        part = child.weight_milli / total if total else 1 / len(below)
        yield from _down(tree, child, due * part)


def _out(node: Node, tree: Tree, due: float) -> QuotaNodeOut:
    cards = tree.size.cards
    return QuotaNodeOut(
        kind="pool" if node.parent is None else "tenant" if node.tenant else "cohort",
        name=node.name,
        parent=node.parent.name or None if node.parent else None,
        weight_milli=node.weight_milli,
        limits=[_use(node, tree, resource) for resource in sorted(node.limits) if node.parent],
        held_milli=node.held.get(GPU, 0),
        held_memory_bytes=node.held.get(MEMORY, 0),
        share_percent=round(100 * share_micro(node, tree) / (cards * MICRO), 2) if cards else 0.0,
        due_percent=round(100 * due, 2),
        past_card_hours=round(node.past / _HOUR_MICRO, 3),
    )


def _use(node: Node, tree: Tree, resource: Resource) -> QuotaUseOut:
    limit, held = node.limits[resource], node.held.get(resource, 0)
    nominal = limit.nominal or 0
    beside = [other for other in tree.below(node.parent or node) if other is not node]
    wanted = sum(_over(other, resource) for other in beside)
    return QuotaUseOut(
        resource=resource,
        nominal=nominal,
        borrowing=limit.borrowing,
        lending=limit.lending,
        held=held,
        borrowed=max(0, held - nominal),
        lent=min(max(0, nominal - max(held, limit.kept)), wanted),
    )


def _over(node: Node, resource: Resource) -> int:
    limit = node.limits.get(resource)
    return max(0, node.held.get(resource, 0) - (limit.nominal or 0 if limit else 0))
