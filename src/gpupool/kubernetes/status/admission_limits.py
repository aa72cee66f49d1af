"""Computes which plain native pods the API server may admit by itself, for `PoolSettings.status`.

The limits never admit more than the webhook would: where they do not suffice, the webhook is asked.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.gpu_node_status import NVIDIA
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.quota import Quota


def compute_limits(nodes: Iterable[GpuNode], tree: TenantTree) -> dict[str, Any]:
    """The limits: `cards` of one model on one node by count and memory, `limits` by namespace."""
    most: dict[int, int] = {}
    for node in nodes:
        for count, memory in _largest(node):
            most[count] = max(most.get(count, 0), memory)
    cards = [{"count": count, "memoryBytes": most[count]} for count in sorted(most)]
    return {"cards": cards, "limits": _limits(tree)}


def _largest(node: GpuNode) -> Iterable[tuple[int, int]]:
    """(count, the memory that each of so many cards of one model has at least), of a node that
    gives shares."""
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
    limits = {}
    for space, limit in found.items():
        if limit:
            limits[space] = limit
    return limits


def _limit(quota: Quota) -> dict[str, Any]:
    """Of single models and of whole cells the webhook alone knows."""
    sizes = {"gpuMilli": quota.maximum_milli, "memoryBytes": quota.maximum_memory_bytes}
    found: dict[str, Any] = {}
    for name, size in sizes.items():
        if size is not None:
            found[name] = size
    return {**found, "others": True} if quota.others else found
