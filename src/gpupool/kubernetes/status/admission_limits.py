"""Computes which plain native pods the API server may admit by itself, for `PoolSettings.status`.

The limits never admit more than the webhook would: where they do not suffice, the webhook is asked.
Pure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpupool.base.units import KIB
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.gpu_node_status import NVIDIA
from gpupool.kubernetes.resources.tenant import TenantTree
from gpupool.model.quota import Quota, list_cohorts_above

#: A maximum from here on limits nothing.
MOST_SIZE = 1 << 62
#: Bytes of all limits as JSON. etcd refuses objects over 1.5 MiB, and the same object has the open
#: starts (`start_records.MOST_OPEN_BYTES`).
MOST_LIMIT_BYTES = 512 * KIB


def compute_limits(nodes: Iterable[GpuNode], tree: TenantTree) -> dict[str, Any]:
    """The limits: `cards` of one model on one node by count and memory, `limits` by namespace.

    Both are empty where the limits are too many for the object: the webhook admits every pod then.
    """
    limits = _limits(tree)
    # A namespace without a limit here may have any amount, so a part of the limits admits too much.
    if len(json.dumps(limits, separators=(",", ":"))) > MOST_LIMIT_BYTES:
        return {"cards": [], "limits": {}}
    most: dict[int, int] = {}
    for node in nodes:
        for count, memory in _largest(node):
            most[count] = max(most.get(count, 0), memory)
    cards = [{"count": count, "memoryBytes": most[count]} for count in sorted(most)]
    return {"cards": cards, "limits": limits}


def _largest(node: GpuNode) -> Iterable[tuple[int, int]]:
    """(count, the memory that each of so many cards of one model has at least), of a node that
    gives shares."""
    models: defaultdict[str, list[int]] = defaultdict(list)
    for card in node.cards if node.mode is Mode.SLOT else ():
        # The policy writes claims to NVIDIA's, and a card in partition mode takes partitions alone.
        if card.vendor != NVIDIA or card.profiles is not None:
            continue
        models[card.model].append(card.memory_bytes)
    for sizes in models.values():
        yield from enumerate(sorted(sizes, reverse=True), 1)


def _limits(tree: TenantTree) -> dict[str, Any]:
    spaces = {**{name: name for name in tree.tenants}, **tree.tenant_of}
    limits = {}
    for space, tenant in sorted(spaces.items()):
        limit = _limit(_quotas_above(tenant, tree))
        if limit:
            limits[space] = limit
    return limits


def _quotas_above(tenant: str, tree: TenantTree) -> list[Quota]:
    """The quotas of a tenant and of all cohorts that it is in."""
    branch = tree.tenants[tenant]
    above = list_cohorts_above(branch.parent, tree.cohorts)
    return [branch.quota, *(tree.cohorts[name].quota for name in above)]


def _limit(quotas: Iterable[Quota]) -> dict[str, Any]:
    """The least maximum of them. Of single models and of whole cells the webhook alone knows."""
    found: dict[str, Any] = {}
    for quota in quotas:
        sizes = {"gpuMilli": quota.maximum_milli, "memoryBytes": quota.maximum_memory_bytes}
        for name, size in sizes.items():
            # A number of the status has 64 bits, and no claim comes near to that.
            if size is not None and size < MOST_SIZE:
                found[name] = min(size, found.get(name, size))
        if quota.others:
            found["others"] = True
    return found
