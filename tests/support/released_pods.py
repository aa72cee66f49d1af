"""Pods that have their cards and no scheduling gate, in a cache of one node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from tests.support.hand_clock import Clock
from tests.support.kube_builders import asking, gpu_node, node, pod

NO = "0/1 nodes are available: 1 Insufficient cpu."


def one_node_pool(clock: Clock) -> ClusterCache:
    """A cache with the node `n0` of four free cards."""
    made = ClusterCache(seconds=clock)
    made.note_host("n0", NodeFacts.from_json(node("n0", cpu="64")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    return made


def note(
    pool: ClusterCache,
    name: str,
    *,
    owner: str = "set",
    said: str = NO,
    of: Any = None,
    placed: bool = False,
    **spec: Any,
) -> None:
    """`of`: what else the builder of pods takes; `placed`: it has the annotation of a release."""
    found = pod(name, spec=spec or None, **{"containers": {"main": asking()}, **(of or {})})
    if owner:
        found["metadata"]["ownerReferences"] = [{"controller": True, "uid": owner}]
    if placed:
        found["metadata"]["annotations"][names.PLACED] = "n0: main"
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": said,
    }
    found["status"] = {"conditions": [condition]}
    pool.note_pod(f"uid-{name}", read_pod(found))


def let_go(
    pool: ClusterCache,
    name: str,
    in_gang: str = "",
    containers: tuple[str, ...] = ("main",),
    **more: Any,
) -> None:
    """Cards in the ledger, no gate, no node."""
    enter(pool, name, in_gang, containers)
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}
    note(pool, name, **more, schedulingGates=[], affinity={"nodeAffinity": affinity})


def enter(
    pool: ClusterCache, name: str, in_gang: str = "", containers: tuple[str, ...] = ("main",)
) -> None:
    known = pool.ledgers["n0"]
    seat = Seat("GPU-n0-0", 300, 8 * GIB)
    made = [
        Entry(f"uid-{name}", "default", name, one, (seat,), "default", gang=in_gang)
        for one in containers
    ]
    pool.note_ledger(
        "n0", replace(known, entries=(*known.entries, *made), version=known.version + 1)
    )
