"""The patch that releases a pod: only what a gated pod may change, and the node in every term."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.controller.release_patch import build_release_patch, pin_affinity
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.node_affinity import NodeConstraint

NODE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def required(affinity: dict[str, Any]) -> list[Any]:
    found: list[Any] = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return found


def test_a_pod_without_affinity_gets_one_term() -> None:
    assert required(pin_affinity(None, "n1")) == [{"matchFields": [NODE]}]


def test_the_node_goes_into_every_term_and_nothing_else_changes() -> None:
    one, two = ({"matchExpressions": [{"key": k, "operator": "Exists"}]} for k in "ab")
    had = {
        "podAffinity": {"x": 1},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": ["p"],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [one, two]},
        },
    }
    now = pin_affinity(had, "n1")
    assert required(now) == [{**one, "matchFields": [NODE]}, {**two, "matchFields": [NODE]}]
    assert now["podAffinity"] == {"x": 1}
    assert now["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == ["p"]
    assert pin_affinity(now, "n1") == now


def test_a_pinned_pod_goes_to_its_node_alone() -> None:
    rule = NodeConstraint.of({"affinity": pin_affinity(None, "n1")})
    assert rule.admits("n1", {}, ())
    assert not rule.admits("n2", {}, ())


def test_gates_of_others_stay_and_ours_goes() -> None:
    gates = [{"name": "other.example/gate"}, {"name": names.GATE}]
    pod = {"metadata": {"resourceVersion": "7"}, "spec": {"schedulingGates": gates}}
    patch = build_release_patch(pod, "n1", {names.PLACED: "n1"})
    assert (
        patch["metadata"].items()
        >= {"resourceVersion": "7", "annotations": {names.PLACED: "n1"}}.items()
    )
    assert patch["spec"]["schedulingGates"] == [{"name": "other.example/gate"}]
    alone = {**pod, "spec": {"schedulingGates": gates[1:]}}
    assert build_release_patch(alone, "n1", {})["spec"]["schedulingGates"] is None


@pytest.mark.parametrize(("operation", "kept"), [("Update", False), ("Apply", True)])
def test_who_wrote_which_field_is_kept_unless_it_is_to_be_forgotten_and_the_pod_was_not_applied(
    operation: str, kept: bool
) -> None:
    pod = {
        "metadata": {
            "resourceVersion": "7",
            "managedFields": [{"manager": "m", "operation": operation}],
        },
        "spec": {},
    }
    assert "managedFields" not in build_release_patch(pod, "n1", {})["metadata"]
    assert (
        "managedFields" not in build_release_patch(pod, "n1", {}, forget=True)["metadata"]
    ) is kept
