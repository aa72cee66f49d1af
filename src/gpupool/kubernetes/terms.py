"""The one PATCH that releases a pod: its gate goes, and the scheduler is left with one node to look at.

What may be changed on a gated pod is little (KEP-3838; each rule is tried on an API server in tests/kubernetes): gates
may only go, and to required node affinity requirements may be added inside the terms that are there. Terms are ORed, so
the node goes into every one of them. By the field `metadata.name` and not by a label: the scheduler then looks at one
node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.kubernetes import names, tracking
from gpupool.kubernetes.api import METADATA, KubeApi

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pinned(affinity: Mapping[str, Any] | None, node: str) -> dict[str, Any]:
    """The pod's affinity with `node` added to every term of its required node affinity."""
    had = dict(affinity or {})
    for_nodes = dict(had.get("nodeAffinity") or {})
    terms = (for_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    for_nodes[_REQUIRED] = {"nodeSelectorTerms": [_with_node(term, node) for term in terms]}
    return {**had, "nodeAffinity": for_nodes}


def _with_node(term: Mapping[str, Any], node: str) -> dict[str, Any]:
    is_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    fields = list(term.get("matchFields") or [])
    return {**term, "matchFields": fields if is_node in fields else [*fields, is_node]}


def release(
    pod: Mapping[str, Any], node: str, annotations: Mapping[str, str], *, forget: bool = False
) -> dict[str, Any]:
    """A merge patch that removes our gate, pins the pod and writes what people may read.

    It names the version that was read, so a pod that changed meanwhile answers with a conflict. Gates of others stay.
    `forget` clears the record of who wrote which field (`tracking`).
    """
    meta, spec = pod["metadata"], pod["spec"]
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != names.GATE]
    named = {"resourceVersion": meta["resourceVersion"], "annotations": dict(annotations)}
    if forget and tracking.is_useless(meta):
        named["managedFields"] = tracking.FORGOTTEN
    return {
        "metadata": named,
        "spec": {"schedulingGates": gates or None, "affinity": pinned(spec.get("affinity"), node)},
    }


async def let_go(
    api: KubeApi, pod: Mapping[str, Any], node: str, annotations: Mapping[str, str], *, forget: bool = False
) -> str:
    """Release it: its version then. Raises ApiRefused: a conflict where it has changed since it was read."""
    meta, body = pod["metadata"], release(pod, node, annotations, forget=forget)
    answer = await api.patch(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", body, accept=METADATA)
    return str(answer["metadata"]["resourceVersion"])
