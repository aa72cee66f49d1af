"""A cluster cache of two zones, and pods that keep near each other or apart."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.resources.pod_constraints import (
    HOSTNAME,
)
from gpupool.kubernetes.resources.pod_requests import sum_foreign_usage
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import asking, gpu_node, node

ZONE = "zone"


WHOLE = {"main": asking(1, 1000, None)}


def zoned_pool() -> ClusterCache:
    """Four nodes in two zones; volumes and the pods around are listed."""
    made = ClusterCache()
    for number in range(4):
        labels = {HOSTNAME: f"n{number}", ZONE: "ab"[number // 2]}
        made.note_host(f"n{number}", NodeFacts.from_json(node(f"n{number}", **labels)))
        made.note_ledger(f"n{number}", GpuNode.from_json(gpu_node(f"n{number}")))
    made.predicates.around.mark_listed()
    made.predicates.volumes.mark_listed()
    return made


def note(pool: ClusterCache, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def placed(pool: ClusterCache) -> list[str]:
    """Where the pods of one plan go, in order."""
    crowded = plan_conflicts.crowded_gangs(pool)
    plan = cycle(pool.take_snapshot(without=crowded), 0)
    return [one.node for one in plan_conflicts.fitting_placements(plan.placements, pool)]


def report(pool: ClusterCache, name: str, *pods: dict[str, Any], version: int = 1) -> None:
    """What a node's agent says of others' pods there."""
    found = gpu_node(name, version=version)
    found["status"]["others"] = sum_foreign_usage(pods).to_json()
    pool.note_ledger(name, GpuNode.from_json(found))


def other(
    name: str, spec: dict[str, Any] | None = None, at: str = "", **labels: str
) -> dict[str, Any]:
    """A pod of somebody else's."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {
        "metadata": meta,
        "spec": {"nodeName": at, "containers": [], **(spec or {})},
        "status": {"phase": "Running"},
    }


def affinity(kind: str, key: str, app: str, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(made: dict[str, Any], app: str) -> dict[str, Any]:
    made["metadata"]["labels"]["app"] = app
    return made
