"""Pods as tests write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.cluster.api import Object
from tests.support.cluster.images import SHELL


def pod(
    name: str,
    *,
    command: Sequence[str] = ("/bin/true",),
    gates: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod of one container that runs once, on the rig's own image; `spec` adds to the pod's
    spec."""
    container = {
        "name": "main",
        "image": SHELL.name,
        "command": [*command],
        "resources": {"limits": {**(limits or {})}},
    }
    base = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "schedulingGates": [{"name": gate} for gate in gates],
        "containers": [container],
    }
    metadata = {"name": name, "labels": {**(labels or {})}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**base, **spec}}


def required(*terms: Object) -> Object:
    """An affinity that requires one of these terms of a node."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}
        }
    }


def on_node(node: str) -> Object:
    """The requirement that makes the scheduler look at one node alone."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def labelled(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}


def is_bound(found: Object) -> bool:
    return bool(found["spec"].get("nodeName"))


def has_ended(found: Object) -> bool:
    return found["status"].get("phase") in ("Succeeded", "Failed")
