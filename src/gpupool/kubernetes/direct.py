"""Pods that the controller binds itself: those of which nothing but cards, processors and main memory is to be placed.

One write less for the API server, and no second queue. What only kube-scheduler knows (volumes, ports, other pods,
other resources) such a pod must not ask for: then it waits at the gate as others do. A pod with a gate cannot be bound,
so admission gives these a scheduler's name instead, which the controller alone goes by. It can never be changed: the
controller binds whoever bears it, also when nobody gets it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.dialects.pod_rules import KUBERNETES
from gpupool.kubernetes import names
from gpupool.kubernetes.api import KubeApi

Json = Mapping[str, Any]

RESOURCES = ("cpu", "memory", *names.TOTALS)
VOLUMES = ("configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret")
"""Kinds that any node has."""
_ELSEWHERE = (
    "topologySpreadConstraints", "resourceClaims", "hostNetwork", "resources", "workloadRef", "schedulingGroup",
)  # fmt: skip
"""Fields of a pod's spec by which kube-scheduler decides beside what we know."""


def is_direct(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulerName") == names.DIRECT)


def qualifies(pod: Json) -> bool:
    """Whether the pod, in the normal form, may be bound by the controller."""
    spec = pod["spec"]
    if any(spec.get(field) for field in _ELSEWHERE) or spec.get("schedulerName", KUBERNETES) != KUBERNETES:
        return False
    if any(gate.get("name") != names.GATE for gate in spec.get("schedulingGates") or ()):
        return False
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        return False
    volumes = spec.get("volumes") or ()
    return all(any(kind in one for kind in VOLUMES) for one in volumes) and all(map(_plain, _containers(spec)))


def _containers(spec: Json) -> list[Json]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _plain(container: Json) -> bool:
    resources = container.get("resources") or {}
    asked = {*(resources.get("limits") or ()), *(resources.get("requests") or ())}
    return asked <= set(RESOURCES) and not any(port.get("hostPort") for port in container.get("ports") or ())


def condition(*more: str) -> str:
    """The same in CEL, for the API server: so nobody has the place of a pod decided without what it depends on.

    `more`: resources that a pod may name that is not in the normal form yet.
    """
    containers = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
    known = "name in [" + ", ".join(f"'{name}'" for name in (*RESOURCES, *more)) + "]"
    kinds = " || ".join(f"has(v.{kind})" for kind in VOLUMES)
    return " && ".join(
        (
            "size(object.spec.?schedulingGates.orValue([])) == 0",
            "!object.spec.?affinity.?podAffinity.hasValue()",
            "!object.spec.?affinity.?podAntiAffinity.hasValue()",
            "size(object.spec.?topologySpreadConstraints.orValue([])) == 0",
            "size(object.spec.?resourceClaims.orValue([])) == 0",
            "!object.spec.?hostNetwork.orValue(false)",
            f"object.spec.?volumes.orValue([]).all(v, {kinds})",
            f"{containers}.all(c, c.?resources.?limits.orValue({{}}).all(name, {known}))",
            f"{containers}.all(c, c.?resources.?requests.orValue({{}}).all(name, {known}))",
            f"{containers}.all(c, c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0))",
        )
    )


def set_free(pod: Json) -> dict[str, Any]:
    """As it was before it became direct; a pod that never went through admission may not say that it is."""
    if not is_direct(pod) or names.CLAIM not in (pod["metadata"].get("annotations") or {}):
        return dict(pod)
    return {**pod, "spec": {**pod["spec"], "schedulerName": KUBERNETES}}


def made(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, in the normal form, without a gate of ours and by the name that the controller goes by."""
    spec = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
    return {**pod, "spec": {**spec, "schedulerName": names.DIRECT}}


async def bind(api: KubeApi, pod: Json, node: str, annotations: Mapping[str, str]) -> None:
    """Bind it, with what people may read. It names uid and version, so another of its name is refused.

    Raises ApiRefused: a conflict where it was bound before, or has changed since it was read.
    """
    meta, target = pod["metadata"], {"apiVersion": "v1", "kind": "Node", "name": node}
    about = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**about, "annotations": dict(annotations)},
        "target": target,
    }
    await api.create(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", body)
