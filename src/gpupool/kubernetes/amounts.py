"""How much a pod asks of a node's processors, main memory and other resources, as kube-scheduler counts it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from gpupool.base import quantities
from gpupool.kubernetes import names
from gpupool.kubernetes.needs import needs_of, resources_of, summed
from gpupool.kubernetes.reported import Others

Json = Mapping[str, Any]
KINDS = 4096
"""Of so many kinds of pods is remembered what one of them says."""
Pairs = tuple[tuple[str, str], ...]
Resources = tuple[str, str, Pairs, Pairs]
"""A container's name, whether it is started again, its limits and its requests."""


def resources_as_said(container: Json) -> Resources:
    """As its container says it: what may stand for all containers that say the same."""
    found = container.get("resources") or {}
    limits, requests = (tuple((found.get(part) or {}).items()) for part in ("limits", "requests"))
    return container["name"], container.get("restartPolicy") or "", limits, requests


class Used(NamedTuple):
    """What the scheduler counts of a pod beside its cards."""

    cpu_milli: int
    host_bytes: int
    resources: tuple[tuple[str, int], ...]


@lru_cache(KINDS)
def used_by(containers: tuple[Resources, ...], first: tuple[Resources, ...], overhead: Pairs) -> Used:
    """Reckoned once for all pods of a kind as well."""
    spec = {"containers": written(containers), "initContainers": written(first), "overhead": dict(overhead)}
    return Used(*requests(spec), resources_of(spec))


def written(containers: Iterable[Resources]) -> list[dict[str, Any]]:
    """Containers of a pod's spec that say so."""
    return [
        {"name": name, "restartPolicy": again, "resources": {"limits": dict(m), "requests": dict(r)}}
        for name, again, m, r in containers
    ]


def requests(spec: Json) -> tuple[int, int]:
    """(milli-processors, bytes) that the scheduler counts for the pod.

    Containers and sidecars run together; an ordinary init container runs with the sidecars before it. The larger of
    both, and the runtime's overhead on top (Kubernetes, "Sidecar containers: resource sharing within containers").
    """
    together = [_requests(one) for one in spec.get("containers") or ()]
    beside, most = (0, 0), (0, 0)
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
    return _sum(_larger(total, most), _amount(spec.get("overhead") or {}))


def others_of(pods: Iterable[Json]) -> Others:
    """What those of a node's pods that did not go through our admission ask of it."""
    total = Others()
    for pod in pods:
        managed = (pod["metadata"].get("labels") or {}).get(names.MANAGED) == "true"
        if managed or (pod.get("status") or {}).get("phase") in names.ENDED:
            continue
        (cpu, memory), needs = requests(pod["spec"]), needs_of(pod)
        total = Others(
            total.cpu_milli + cpu,
            total.memory_bytes + memory,
            total.pods + 1,
            tuple(sorted({*total.ports, *needs.ports})),
            summed((total.resources, needs.resources)),
            tuple(sorted({*total.apart, *needs.apart}, key=repr)),
        )
    return total


def _requests(container: Json) -> tuple[int, int]:
    resources = container.get("resources") or {}
    return _amount({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amount(found: Mapping[str, str]) -> tuple[int, int]:
    return quantities.milli(found.get("cpu", 0)), quantities.whole(found.get("memory", 0))


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def _larger(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return max(a[0], b[0]), max(a[1], b[1])
