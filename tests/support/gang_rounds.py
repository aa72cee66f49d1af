"""Rounds of planning and writing for gangs of pods, without an API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.plan_entries import entries_by_node
from gpupool.kubernetes.ledger.entry_lifecycle import reconcile_entries
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import asking, gang, gpu_node, node, pod

WHOLE = {"main": asking(1, 1000, None)}


def pool_of(nodes: int) -> ClusterCache:
    pool = ClusterCache()
    for number in range(nodes):
        pool.note_host(f"n{number}", NodeFacts.from_json(node(f"n{number}")))
        pool.note_ledger(f"n{number}", GpuNode.from_json(gpu_node(f"n{number}")))
    return pool


def member(
    name: str, size: int, minimum: int | None = None, containers: Any = None
) -> dict[str, Any]:
    return pod(name, containers or WHOLE, gang=gang(size, minimum))


def note(pool: ClusterCache, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def write(pool: ClusterCache, given_up: frozenset[str] = frozenset()) -> int:
    """One round without an API server; how many placements it made."""
    plan = cycle(pool.take_snapshot(), 0)
    added, claimed = entries_by_node(plan.placements, pool), pool.gang_seats.match_seats()
    given_up |= pool.gang_seats.surplus_seats()
    for name, known in list(pool.ledgers.items()):
        entries = reconcile_entries(known, pool.pods, claimed=claimed, given_up=given_up)
        entries += tuple(
            replace(entry, generation=known.version + 1) for entry in added.get(name, ())
        )
        if entries != known.entries:
            pool.note_ledger(name, replace(known, entries=entries, version=known.version + 1))
    return len(plan.placements)


def holders(pool: ClusterCache) -> list[str]:
    return sorted(entry.uid for known in pool.ledgers.values() for entry in known.entries)
