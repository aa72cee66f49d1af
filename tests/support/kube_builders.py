"""Pods, Nodes and GpuNodes as an API server would have them, for tests of what reads them."""

from __future__ import annotations

import json
from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.resources import names

CREATED = "2026-11-22T00:00:00Z"
L40S_BYTES = 48 * GIB


def limits_of(count: int, milli: int, memory_bytes: int | None) -> dict[str, str]:
    """A container's resources in the normal form."""
    found = {names.SLOT: "1", names.GPU_MILLI: str(count * milli)}
    return found if memory_bytes is None else {**found, names.MEMORY: str(count * memory_bytes)}


def asking(
    count: int = 1, milli: int = 300, memory_bytes: int | None = 8 * GIB, **more: Any
) -> dict[str, Any]:
    """One container's part of the claim."""
    found = {"count": count, "gpu_milli": milli, "sharing": "fixed", "vendor": "nvidia", **more}
    return found if memory_bytes is None else {**found, "memory_bytes": memory_bytes}


def pod(
    name: str = "a",
    containers: dict[str, dict[str, Any]] | None = None,
    *,
    namespace: str = "default",
    spec: dict[str, Any] | None = None,
    direct: bool = False,
    **hints: Any,
) -> dict[str, Any]:
    """A gated pod in the normal form; `containers` are what each claims: one of 0.3 GPU and 8 GiB
    if left out.

    `direct`: one that the controller binds.

    `hints` are what is claimed of the whole pod: `gang`, `within`, `preemptible`.
    """
    asked = containers if containers is not None else {"main": asking()}
    made = [
        {
            "name": each,
            "image": "gpupool.test/busybox:1",
            "resources": {
                "limits": limits_of(one["count"], one["gpu_milli"], one.get("memory_bytes"))
            },
        }
        for each, one in asked.items()
    ]
    waits = (
        {"schedulerName": names.DIRECT} if direct else {"schedulingGates": [{"name": names.GATE}]}
    )
    claims = [{"container": each, "kind": "app", **one} for each, one in asked.items()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            "labels": {names.MANAGED: "true"},
            "annotations": {names.CLAIM: json.dumps({"containers": claims, "pod": hints})},
        },
        "spec": {"containers": made, **waits, **(spec or {})},
    }


def gang(size: int, minimum: int | None = None, name: str = "train") -> dict[str, Any]:
    """The hint of a pod that starts with others."""
    found = {"name": name, "size": size}
    return found if minimum is None else {**found, "minimum": minimum}


def node(
    name: str = "n0", *, cpu: str = "64", memory: str = "512Gi", pods: str = "110", **labels: str
) -> dict[str, Any]:
    """A Node that is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def cards(
    node_name: str, count: int, model: str = "L40S", memory_bytes: int = L40S_BYTES
) -> list[dict[str, Any]]:
    """Cards as an agent reports them."""
    return [
        {
            "uuid": f"GPU-{node_name}-{index}",
            "index": index,
            "model": model,
            "memoryBytes": memory_bytes,
            "health": "ok",
            "simulated": True,
        }
        for index in range(count)
    ]


def status(node_name: str, count: int, *, observed: int = 0, slots: int = 512) -> dict[str, Any]:
    """What a node's agent reports."""
    return {
        "observedGeneration": observed,
        "slotCount": slots,
        "readsText": True,
        "cards": cards(node_name, count),
        "slots": [],
        "conditions": [{"type": "Ready", "status": "True"}],
    }


def gpu_node(
    name: str = "n0", count: int = 4, *, mode: str = "slot", version: int = 1, **spec: Any
) -> dict[str, Any]:
    """A GpuNode with its agent's report."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GpuNode",
        "metadata": {"name": name, "generation": version},
        "spec": {"mode": mode, "allocations": [], **spec},
        "status": status(name, count, observed=version),
    }


def tenant(
    name: str,
    parent: str | None = None,
    namespaces: list[str] | None = None,
    *,
    limits: dict[str, dict[str, Any]] | None = None,
    weight: float = 1,
) -> dict[str, Any]:
    """A Tenant as people write it."""
    spec = {"namespaces": namespaces or [], "limits": limits or {}, "weight": weight}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {**spec, "parent": parent} if parent else spec,
    }
