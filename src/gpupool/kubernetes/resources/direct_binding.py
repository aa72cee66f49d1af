"""Decides which pods the controller binds itself: those that request only cards, CPUs and memory.

This saves the API server one write, and the pod a second queue. A pod that requests what only
kube-scheduler knows (volumes, ports, other pods, other resources) waits at the gate like all
others. A pod with a gate cannot be bound, so admission gives a direct pod a scheduler's name
instead. That name can never be changed, so the controller binds every pod that has it, also after
direct binding was turned off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.dialects.manifests.pod_rules import KUBERNETES
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.resources import names

Json = Mapping[str, Any]

RESOURCES = ("cpu", "memory", *names.TOTALS)
#: Kinds that any node has.
VOLUMES = ("configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret")
#: Fields of a pod's spec by which kube-scheduler decides beside what we know.
_ELSEWHERE = (
    "topologySpreadConstraints", "resourceClaims", "hostNetwork", "resources", "workloadRef", "schedulingGroup",
)  # fmt: skip


def is_direct(pod: Json) -> bool:
    """Whether the controller binds the pod."""
    return bool(pod["spec"].get("schedulerName") == names.DIRECT)


def can_bind_directly(pod: Json) -> bool:
    """Whether the pod, in the normal form, may be bound by the controller."""
    spec = pod["spec"]
    if (
        any(spec.get(field) for field in _ELSEWHERE)
        or spec.get("schedulerName", KUBERNETES) != KUBERNETES
    ):
        return False
    if any(gate.get("name") != names.GATE for gate in spec.get("schedulingGates") or ()):
        return False
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        return False
    for volume in spec.get("volumes") or ():
        if volume.keys().isdisjoint(VOLUMES):
            return False
    return all(map(_is_plain, _list_containers(spec)))


def _list_containers(spec: Json) -> list[Json]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _is_plain(container: Json) -> bool:
    """Whether a container requests nothing that kube-scheduler would have to place."""
    resources = container.get("resources") or {}
    asked = {*(resources.get("limits") or ()), *(resources.get("requests") or ())}
    return asked <= set(RESOURCES) and not any(
        port.get("hostPort") for port in container.get("ports") or ()
    )


def cel_condition(*more: str) -> str:
    """Return `can_bind_directly` as CEL, for the API server's admission.

    Args:
        more: resources that a pod may also request before it is in the normal form.
    """
    # Admission checks it again, because a tenant can write the scheduler's name too: the
    # controller would then bind a pod without regard to its volumes or ports.
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


def undo_direct(pod: Json) -> dict[str, Any]:
    """Return the pod as it was before it became direct, if our admission made it direct."""
    if not is_direct(pod) or names.CLAIM not in (pod["metadata"].get("annotations") or {}):
        return dict(pod)
    return {**pod, "spec": {**pod["spec"], "schedulerName": KUBERNETES}}


def make_direct(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod, which is in the normal form, with the direct scheduler's name and no gate."""
    spec = {}
    for key, value in pod["spec"].items():
        if key != "schedulingGates":
            spec[key] = value
    return {**pod, "spec": {**spec, "schedulerName": names.DIRECT}}


async def bind_pod(api: KubeApi, pod: Json, node: str, annotations: Mapping[str, str]) -> None:
    """Bind the pod to the node and write the annotations.

    Raises:
        ApiServerRejection: a conflict if it was bound before, or has changed since it was read.
    """
    # Uid and version are named: another pod of the same name must not get these cards.
    meta = pod["metadata"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    about = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**about, "annotations": dict(annotations)},
        "target": target,
    }
    await api.create(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", body)
