"""Ledgers and entries as the plugin's tables read them."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.kube_builders import gpu_node

GIB = 1 << 30


def entry(name: str = "a", milli: int = 300, card: int = 0, **more: Any) -> dict[str, Any]:
    cards = [{"uuid": f"GPU-n0-{card}", "gpuMilli": milli, "memoryBytes": 8 * GIB}]
    found = {
        "uid": f"uid-{name}",
        "namespace": "team",
        "pod": name,
        "container": "main",
        "cards": cards,
    }
    return {**found, "tenant": "team", "state": "active", "generation": 1, **more}


def ledger(*entries: dict[str, Any], count: int = 2) -> GpuNode:
    return GpuNode.from_json(gpu_node(count=count, allocations=list(entries)))
