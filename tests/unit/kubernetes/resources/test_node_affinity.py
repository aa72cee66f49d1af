"""A pod may go where kube-scheduler would let it go."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.resources.node_affinity import UNSCHEDULABLE, NodeConstraint

LABELS = {"disk": "ssd", "cards": "8"}
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def admits(spec: dict[str, Any], *taints: dict[str, str], name: str = "node-1") -> bool:
    return NodeConstraint.of(spec).admits(name, LABELS, taints)


def terms(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
    }
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_pod_that_says_nothing_goes_anywhere() -> None:
    assert admits({})


@pytest.mark.parametrize(
    ("selector", "fits"), [({"disk": "ssd"}, True), ({"disk": "hdd"}, False), ({"no": "x"}, False)]
)
def test_the_node_selector(selector: dict[str, str], fits: bool) -> None:
    assert admits({"nodeSelector": selector}) is fits


@pytest.mark.parametrize(
    ("key", "operator", "values", "fits"),
    [
        ("disk", "In", ("ssd", "nvme"), True),
        ("disk", "In", ("nvme",), False),
        ("disk", "NotIn", ("ssd",), False),
        ("other", "NotIn", ("ssd",), True),
        ("disk", "Exists", (), True),
        ("other", "Exists", (), False),
        ("other", "DoesNotExist", (), True),
        ("cards", "Gt", ("7",), True),
        ("cards", "Gt", ("8",), False),
        ("cards", "Lt", ("9",), True),
        ("disk", "Gt", ("1",), False),
        ("disk", "Unknown", ("ssd",), False),
    ],
)
def test_the_operators(key: str, operator: str, values: tuple[str, ...], fits: bool) -> None:
    assert admits(terms(expression(key, operator, *values))) is fits


def test_terms_are_alternatives_and_one_without_requirements_matches_nothing() -> None:
    ssd, hdd = expression("disk", "In", "ssd"), expression("disk", "In", "hdd")
    assert admits(terms(hdd, ssd))
    assert not admits(terms({}))
    assert admits(terms({}, ssd))


def test_a_term_may_name_nodes() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    assert admits(terms(field))
    assert not admits(terms(field), name="node-2")


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "no"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_taint_keeps_away_who_does_not_tolerate_it(
    toleration: dict[str, str], fits: bool
) -> None:
    assert admits({"tolerations": [toleration]}, TAINT) is fits
    assert not admits({}, TAINT)


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert admits({}, {**TAINT, "effect": "PreferNoSchedule"})


def test_a_cordoned_node_is_tainted() -> None:
    assert not admits({}, UNSCHEDULABLE)
    assert admits({"tolerations": [{"operator": "Exists"}]}, UNSCHEDULABLE)


def test_equal_pods_have_equal_constraints() -> None:
    assert NodeConstraint.of({"nodeSelector": {"a": "1", "b": "2"}}) == NodeConstraint.of(
        {"nodeSelector": {"b": "2", "a": "1"}}
    )
