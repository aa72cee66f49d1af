"""Recognises other systems that hand out cards in a cluster. Pure.

They are found by the resources of nodes, by DaemonSets and by kinds of objects. Names are those of
the projects' own charts and manifests. An unknown system is still found by its resource if that has
one of the prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.base import quantities
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.node_affinity import NodeConstraint

Json = Mapping[str, Any]

#: How resources begin that stand for cards.
RESOURCES = (
    "nvidia.com/",
    "amd.com/gpu",
    "aliyun.com/gpu",
    "tke.cloud.tencent.com/qgpu",
    "volcano.sh/vgpu",
)
#: KAI's pods ask by these, and name no resource.
ANNOTATIONS = ("gpu-fraction", "gpu-memory")
WORKLOADS = (
    ("nvidia-device-plugin", "NVIDIA device plugin"),
    ("hami-device-plugin", "HAMi"),
    ("volcano-device-plugin", "Volcano"),
    ("volcano-vgpu-device-plugin", "Volcano"),
    ("gpushare-device-plugin", "gpushare"),
    ("qgpu", "qGPU"),
    ("gpu-manager", "gpu-manager"),
    ("vgpu-manager", "vgpu-manager"),
    ("elastic-gpu-agent", "Elastic GPU"),
    ("amdgpu-device-plugin", "AMD device plugin"),
)
GROUPS = {
    "nvidia.com": "GPU Operator",
    "resource.nvidia.com": "NVIDIA DRA driver",
    "scheduling.run.ai": "KAI",
    "scheduling.volcano.sh": "Volcano",
    "kueue.x-k8s.io": "Kueue",
}
#: Labels by which owners let a node out: the GPU Operator's word for no, and HAMi's `gpu=on`,
#: which goes.
SWITCHES: Mapping[str, str | None] = {"nvidia.com/gpu.deploy.device-plugin": "false", "gpu": None}


@dataclass(frozen=True)
class Plugin:
    """A DaemonSet that hands out cards."""

    namespace: str
    name: str
    owner: str
    constraint: NodeConstraint
    selector: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Json) -> Plugin | None:
        """None for a DaemonSet that has nothing to do with cards."""
        meta = found["metadata"]
        spec = found["spec"]["template"]["spec"]
        owner = next((owner for part, owner in WORKLOADS if part in meta["name"]), None)
        if owner is None:
            return None
        if any(one.get("kind") == "ClusterPolicy" for one in meta.get("ownerReferences") or ()):
            owner = "GPU Operator"
        return cls(
            meta["namespace"],
            meta["name"],
            owner,
            NodeConstraint.of(spec),
            tuple(spec.get("nodeSelector") or ()),
        )

    def runs_on(self, name: str, labels: Mapping[str, str]) -> bool:
        """Taints are not asked: what hands out devices tolerates them."""
        return self.constraint.admits(name, labels, ())

    def switches(self) -> dict[str, str | None]:
        """Labels that take it off a node, by its own selector; empty where it has none that is
        known."""
        switches = {}
        for key in self.selector:
            if key in SWITCHES:
                switches[key] = SWITCHES[key]
        return switches


def plugins_of(daemonsets: Iterable[Json]) -> list[Plugin]:
    plugins = []
    for plugin in map(Plugin.of, daemonsets):
        if plugin is not None:
            plugins.append(plugin)
    return plugins


def offered_cards(node: Json) -> dict[str, int]:
    """Cards that the node offers by others' names.

    >>> offered_cards({"status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "4", "amd.com/gpu": "0"}}})
    {'nvidia.com/gpu': 8}
    """
    found = (node.get("status") or {}).get("allocatable") or {}
    amounts = {}
    for name, text in sorted(found.items()):
        if name.startswith(RESOURCES):
            amounts[name] = quantities.parse_whole(text)
    offered = {}
    for name, amount in amounts.items():
        if amount:
            offered[name] = amount
    return offered


def uses(pod: Json) -> tuple[str, ...]:
    """By which names a pod uses cards that are not ours to give; empty where it does not, or is
    over."""
    meta = pod["metadata"]
    spec = pod["spec"]
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return ()
    asked = set()
    for one in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        for name in (one.get("resources") or {}).get("limits") or ():
            if name.startswith(RESOURCES):
                asked.add(name)
    asked |= {key for key in meta.get("annotations") or () if key in ANNOTATIONS}
    return tuple(sorted(asked))


def users(pods: Sequence[Json]) -> list[str]:
    """`team/job (nvidia.com/gpu)` of every pod that uses cards by others' names."""
    names = []
    for pod in pods:
        if asked := uses(pod):
            names.append(
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']} ({', '.join(asked)})"
            )
    return names


def stay_away(plugin: Plugin) -> str:
    """What to type so that a DaemonSet leaves nodes that gpupool has."""
    patch = (
        '{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        '{"nodeSelectorTerms":[{"matchExpressions":[{"key":"'
        + names.MODE
        + '","operator":"DoesNotExist"}]}]}}}}}}}'
    )
    return f"kubectl -n {plugin.namespace} patch daemonset {plugin.name} -p '{patch}'"
