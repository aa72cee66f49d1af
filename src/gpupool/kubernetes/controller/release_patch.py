"""Builds the one patch that releases a pod: it removes the gate and pins the pod to its node.

A gated pod allows few changes (KEP-3838; each rule is tested on an API server in tests/kubernetes):
gates may only be removed, and required node affinity may only get further requirements inside its
terms. Terms are ORed, so the node is added to each of them. The node is named by the field
`metadata.name` and not by a label, because kube-scheduler then evaluates one node only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.kubernetes.client.api import METADATA, KubeApi
from gpupool.kubernetes.resources import managed_fields, names

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pin_affinity(affinity: Mapping[str, Any] | None, node: str) -> dict[str, Any]:
    """The pod's affinity with `node` added to every term of its required node affinity."""
    had = dict(affinity or {})
    for_nodes = dict(had.get("nodeAffinity") or {})
    # Without a term the pod gets an empty one that holds the node alone: an API server refuses a
    # required affinity without terms.
    terms = (for_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    for_nodes[_REQUIRED] = {"nodeSelectorTerms": [_with_node(term, node) for term in terms]}
    return {**had, "nodeAffinity": for_nodes}


def _with_node(term: Mapping[str, Any], node: str) -> dict[str, Any]:
    is_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    fields = list(term.get("matchFields") or [])
    return {**term, "matchFields": fields if is_node in fields else [*fields, is_node]}


def build_release_patch(
    pod: Mapping[str, Any], node: str, annotations: Mapping[str, str], *, forget: bool = False
) -> dict[str, Any]:
    """The merge patch that removes our gate, pins the pod and writes the annotations.

    It names the version that was read, so a pod that changed meanwhile answers with a conflict.
    Gates of other controllers stay.

    Args:
        forget: clear the record of field managers (`managed_fields`).
    """
    meta = pod["metadata"]
    spec = pod["spec"]
    gates = []
    for gate in spec.get("schedulingGates") or ():
        if gate.get("name") != names.GATE:
            gates.append(gate)
    # The version makes the release a compare-and-swap: a pod whose seat was withdrawn has another
    # one (`entry_withdrawal`).
    named = {"resourceVersion": meta["resourceVersion"], "annotations": dict(annotations)}
    if forget and managed_fields.is_unused(meta):
        named["managedFields"] = managed_fields.FORGOTTEN
    return {
        "metadata": named,
        "spec": {
            # A merge patch removes a list by null; an empty list would stay in the object.
            "schedulingGates": gates or None,
            "affinity": pin_affinity(spec.get("affinity"), node),
        },
    }


async def release_pod(
    api: KubeApi,
    pod: Mapping[str, Any],
    node: str,
    annotations: Mapping[str, str],
    *,
    forget: bool = False,
) -> str:
    """Release the pod.

    Returns:
        The pod's version after the release.

    Raises:
        ApiServerRejection: a conflict if the pod has changed since it was read.
    """
    meta = pod["metadata"]
    body = build_release_patch(pod, node, annotations, forget=forget)
    answer = await api.patch(
        f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", body, accept=METADATA
    )
    return str(answer["metadata"]["resourceVersion"])
