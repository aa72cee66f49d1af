"""Nodes, pods and entries noted in a cluster cache, in one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.node.status import build_status
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.model.topology import Topology
from gpupool.probes.simulated import parse_sim
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.plan import Plan
from tests.support.kube_builders import gpu_node, node


def two_node_pool() -> ClusterCache:
    """A cache with the nodes `n0` and `n1` of four free cards each."""
    made = ClusterCache()
    for name in ("n0", "n1"):
        note_node(made, name)
    return made


def note_node(pool: ClusterCache, name: str, **more: Any) -> None:
    pool.note_host(name, NodeFacts.from_json(node(name, **more)))
    pool.note_ledger(name, GpuNode.from_json(gpu_node(name)))


def note_mig_node(pool: ClusterCache, name: str, count: int = 1, model: str = "H200") -> None:
    """A node of which every card is in MIG mode."""
    (machine,) = parse_sim(f"{count}x{model}:mig", name)
    made = gpu_node(name, 0)
    made["status"] = {
        **build_status(machine.devices, Topology(), (), (), 512, 1, labels={}),
        "slots": [],
    }
    pool.note_host(name, NodeFacts.from_json(node(name)))
    pool.note_ledger(name, GpuNode.from_json(made))


def note(pool: ClusterCache, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def hold(pool: ClusterCache, name: str, uid: str, milli: int, size: int) -> None:
    entry = Entry(uid, "default", uid, "main", (Seat(f"GPU-{name}-0", milli, size),), "default")
    known = pool.ledgers[name]
    assert pool.note_ledger(
        name, replace(known, entries=(*known.entries, entry), version=known.version + 1)
    )


def plan(pool: ClusterCache) -> Plan:
    return cycle(pool.take_snapshot(), 0)
