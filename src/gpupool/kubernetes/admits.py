"""What of a plain native pod the API server may judge by itself, as the status of the `PoolSettings` says it.

Never more than admission would take: where this knows less, the webhook is asked. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.reported import NVIDIA
from gpupool.kubernetes.tenants import TenantTree
from gpupool.model.quota import Quota


def admits(nodes: Iterable[GpuNode], tree: TenantTree) -> dict[str, Any]:
    """`cards`: so many with so much memory each are of one model on one node; `limits`: by namespace its maximum."""
    most: dict[int, int] = {}
    for node in nodes:
        for count, memory in _largest(node):
            most[count] = max(most.get(count, 0), memory)
    cards = [{"count": count, "memoryBytes": most[count]} for count in sorted(most)]
    return {"cards": cards, "limits": _limits(tree)}


def _largest(node: GpuNode) -> Iterable[tuple[int, int]]:
    """(count, the memory that each of so many cards of one model has at least), of a node that gives shares."""
    models: defaultdict[str, list[int]] = defaultdict(list)
    for card in node.cards if node.mode is Mode.SLOT else ():
        if card.vendor != NVIDIA:  # the policy writes claims to NVIDIA's
            continue
        models[card.model].append(card.memory_bytes)
    for sizes in models.values():
        yield from enumerate(sorted(sizes, reverse=True), 1)


def _limits(tree: TenantTree) -> dict[str, Any]:
    spaces = {**{name: name for name in tree.tenants}, **tree.tenant_of}
    found = {space: _limit(tree.tenants[tenant].quota) for space, tenant in sorted(spaces.items())}
    return {space: limit for space, limit in found.items() if limit}


def _limit(quota: Quota) -> dict[str, Any]:
    """Of single models and of whole cells the webhook alone knows."""
    sizes = {"gpuMilli": quota.maximum_milli, "memoryBytes": quota.maximum_memory_bytes}
    found: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    return {**found, "others": True} if quota.others else found
