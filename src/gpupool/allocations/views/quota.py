"""The quota tree in answers: what each node may hold, holds, borrows, lends, and is due."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.model.tenant import Principal
from gpupool.scheduling import (
    MICRO_PER_CARD,
    FreeCapacity,
    QuotaNode,
    QuotaTree,
    Snapshot,
    WorkingQuotas,
    compute_share_micro,
)
from gpupool.wire.people import QuotaNodeOut, QuotaTreeOut, QuotaUseOut

#: Micro-cards times seconds in one card-hour, the unit of past usage in answers.
_HOUR_MICRO = 3600 * MICRO_PER_CARD


def describe_quota_tree(snapshot: Snapshot, caller: Principal) -> QuotaTreeOut:
    """Describe the whole tree for an admin, else the node of the caller's tenant."""
    tree = WorkingQuotas(snapshot, FreeCapacity(snapshot.cards)).tree
    shown = list[QuotaNodeOut]()
    for node, due in _walk_tree(tree, tree.root, 1.0):
        out = _describe_node(node, tree, due)
        # A tenant may know its own numbers only: those above it would tell of its neighbours.
        if caller.sees_all or (out.kind, out.name) == ("tenant", caller.tenant):
            shown.append(out)
    return QuotaTreeOut(nodes=shown)


def _walk_tree(tree: QuotaTree, node: QuotaNode, due: float) -> Iterator[tuple[QuotaNode, float]]:
    """Yield each node after its parent, with the part of the pool that is due to it.

    Due is the part by weights if every tenant had enough jobs waiting.
    """
    yield node, due
    below = tree.list_children(node)
    total = sum(child.weight_milli for child in below)
    for child in sorted(below, key=lambda one: (one.tenant, one.name)):
        part = child.weight_milli / total if total else 1 / len(below)
        yield from _walk_tree(tree, child, due * part)


def _describe_node(node: QuotaNode, tree: QuotaTree, due: float) -> QuotaNodeOut:
    cards = tree.size.cards
    # A pool without cards: every part of it is 0.
    share_percent = 0.0
    if cards:
        whole_micro = cards * MICRO_PER_CARD
        share_percent = round(100 * compute_share_micro(node, tree) / whole_micro, 2)
    limits = sorted(node.limits) if node.parent else []
    return QuotaNodeOut(
        kind="pool" if node.parent is None else "tenant" if node.tenant else "cohort",
        name=node.name,
        parent=node.parent.name or None if node.parent else None,
        weight_milli=node.weight_milli,
        limits=[_describe_use(node, tree, resource) for resource in limits],
        held_milli=node.held.get(GPU, 0),
        held_memory_bytes=node.held.get(MEMORY, 0),
        share_percent=share_percent,
        due_percent=round(100 * due, 2),
        past_card_hours=round(node.past / _HOUR_MICRO, 3),
    )


def _describe_use(node: QuotaNode, tree: QuotaTree, resource: Resource) -> QuotaUseOut:
    limit = node.limits[resource]
    held = node.held.get(resource, 0)
    nominal = limit.nominal or 0
    # Its siblings can borrow what the node lends.
    borrowed_beside = 0
    for other in tree.list_children(node.parent or node):
        if other is not node:
            borrowed_beside += _measure_borrowing(other, resource)
    return QuotaUseOut(
        resource=resource,
        nominal=nominal,
        borrowing=limit.borrowing,
        lending=limit.lending,
        held=held,
        borrowed=max(0, held - nominal),
        lent=min(max(0, nominal - max(held, limit.unlent)), borrowed_beside),
    )


def _measure_borrowing(node: QuotaNode, resource: Resource) -> int:
    limit = node.limits.get(resource)
    return max(0, node.held.get(resource, 0) - (limit.nominal or 0 if limit else 0))
