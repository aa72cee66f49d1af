"""Computes a pod's requests of CPU, memory and other resources, as kube-scheduler counts them.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from gpupool.base import quantities
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.pod_constraints import (
    read_constraints,
    read_pod_level,
    sum_amounts,
    sum_resources,
)

Json = Mapping[str, Any]
#: Of so many kinds of pods is remembered what one of them says.
KINDS = 4096
#: The most that is counted of one pod: more than any node has, so the answer is the same, and a
#: gang's sum stays within the 64 bits of the scheduler's columns. The API server allows more.
MOST_CPU_MILLI = 1 << 40
MOST_HOST_BYTES = 1 << 46
Pairs = tuple[tuple[str, str], ...]
#: A container's name, whether it is started again, its limits and its requests.
Resources = tuple[str, str, Pairs, Pairs]


def resources_as_said(container: Json) -> Resources:
    """As its container says it: what may stand for all containers that say the same."""
    found = container.get("resources") or {}
    limits, requests = (tuple((found.get(part) or {}).items()) for part in ("limits", "requests"))
    return container["name"], container.get("restartPolicy") or "", limits, requests


class PodRequests(NamedTuple):
    """What the scheduler counts of a pod beside its cards."""

    cpu_milli: int
    host_bytes: int
    resources: tuple[tuple[str, int], ...]


@lru_cache(KINDS)
def sum_requests(
    containers: tuple[Resources, ...],
    first: tuple[Resources, ...],
    overhead: Pairs,
    whole: Pairs = (),
) -> PodRequests:
    """Reckoned once for all pods of a kind as well, up to `MOST_CPU_MILLI` and `MOST_HOST_BYTES`."""
    spec = {
        "containers": copy_containers(containers),
        "initContainers": copy_containers(first),
        "overhead": dict(overhead),
        "resources": {"requests": dict(whole)},
    }
    (cpu, memory) = read_requests(spec)
    return PodRequests(min(cpu, MOST_CPU_MILLI), min(memory, MOST_HOST_BYTES), sum_resources(spec))


def copy_containers(containers: Iterable[Resources]) -> list[dict[str, Any]]:
    """Containers of a pod's spec that say so."""
    return [
        {
            "name": name,
            "restartPolicy": again,
            "resources": {"limits": dict(m), "requests": dict(r)},
        }
        for name, again, m, r in containers
    ]


def read_requests(spec: Json) -> tuple[int, int]:
    """(milli-processors, bytes) that the scheduler counts for the pod.

    Containers and sidecars run together; an ordinary init container runs with the sidecars before
    it. The larger of both, and the runtime's overhead on top (Kubernetes, "Sidecar containers:
    resource sharing within containers"). A request of the whole pod replaces that of its containers
    (KEP-2837).
    """
    together = [_requests(one) for one in spec.get("containers") or ()]
    beside = (0, 0)
    most = (0, 0)
    for one in spec.get("initContainers") or ():
        asked = _requests(one)
        if one.get("restartPolicy") == "Always":
            beside = _sum(beside, asked)
            most = _larger(most, beside)
        else:
            most = _larger(most, _sum(beside, asked))
    total = beside
    for asked in together:
        total = _sum(total, asked)
    (cpu, memory) = _larger(total, most)
    # The API server has filled these in, also where the pod names a limit alone.
    whole = read_pod_level(spec)
    if "cpu" in whole:
        cpu = quantities.parse_milli(whole["cpu"])
    if "memory" in whole:
        memory = quantities.parse_whole(whole["memory"])
    return _sum((cpu, memory), _amount(spec.get("overhead") or {}))


def sum_foreign_usage(pods: Iterable[Json]) -> ForeignUsage:
    """What those of a node's pods that did not go through our admission ask of it."""
    total = ForeignUsage()
    for pod in pods:
        managed = (pod["metadata"].get("labels") or {}).get(names.MANAGED) == "true"
        if managed or (pod.get("status") or {}).get("phase") in names.ENDED:
            continue
        (cpu, memory) = read_requests(pod["spec"])
        needs = read_constraints(pod)
        total = ForeignUsage(
            total.cpu_milli + cpu,
            total.memory_bytes + memory,
            total.pods + 1,
            tuple(sorted({*total.ports, *needs.ports})),
            sum_amounts((total.resources, needs.resources)),
            tuple(sorted({*total.apart, *needs.apart}, key=repr)),
        )
    return total


def _requests(container: Json) -> tuple[int, int]:
    resources = container.get("resources") or {}
    return _amount({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amount(found: Mapping[str, str]) -> tuple[int, int]:
    return quantities.parse_milli(found.get("cpu", 0)), quantities.parse_whole(
        found.get("memory", 0)
    )


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _larger(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return max(a[0], b[0]), max(a[1], b[1])
