"""When the policy on addresses counts as installed. The rule itself is tried on a real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.kubernetes.manifests import address_policy

SPACE = "kube-system"


def served() -> tuple[dict[str, Any], dict[str, Any]]:
    """Policy and binding with what the API server adds."""
    policy, binding = copy.deepcopy(address_policy.objects(SPACE))
    constraints = policy["spec"]["matchConstraints"]
    constraints |= {"matchPolicy": "Equivalent", "objectSelector": {}}
    constraints["resourceRules"][0]["scope"] = "*"
    return policy, binding


def test_the_policy_as_the_api_server_returns_it_protects() -> None:
    assert address_policy.find_fault(*served(), SPACE) == ""


def test_without_policy_or_binding_nothing_protects() -> None:
    policy, binding = served()
    assert "is missing" in address_policy.find_fault(None, binding, SPACE)
    assert "is missing" in address_policy.find_fault(policy, None, SPACE)


WEAKER: dict[str, tuple[int, str, Any]] = {
    "ignored failures": (0, "failurePolicy", "Ignore"),
    "an exception": (0, "matchConditions", [{"name": "x", "expression": "false"}]),
    "an empty rule": (0, "validations", [{"expression": "true"}]),
    "a warning alone": (1, "validationActions", ["Warn"]),
    "some namespaces": (
        1,
        "matchResources",
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    ),
}


@pytest.mark.parametrize("name", WEAKER)
def test_a_weaker_policy_of_the_same_name_does_not_count(name: str) -> None:
    which, field, value = WEAKER[name]
    both = served()
    both[which]["spec"][field] = value
    assert "is not the one that gpupool installs" in address_policy.find_fault(*both, SPACE)


def test_a_policy_for_kube_ovn_elsewhere_does_not_count() -> None:
    assert address_policy.find_fault(*served(), "network-system")


def test_every_suffix_stands_in_the_rule() -> None:
    (rule,) = served()[0]["spec"]["validations"]
    for suffix in address_policy.SUFFIXES:
        assert f"key.endsWith('.kubernetes.io/{suffix}')" in rule["expression"]
