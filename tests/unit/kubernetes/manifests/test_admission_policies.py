"""What the API server is made to compute at each write of ours is counted: it copies the object for
every question."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.manifests.admission_policies import policies


def on(resource: str) -> list[dict[str, Any]]:
    made = [
        one["spec"] for one in policies("c", "a", "m") if one["kind"] == "ValidatingAdmissionPolicy"
    ]
    return [
        one
        for one in made
        if any(resource in rule["resources"] for rule in one["matchConstraints"]["resourceRules"])
    ]


def test_one_policy_without_conditions_looks_at_a_ledger_and_at_an_agents_report() -> None:
    for resource in ("gpunodes", "gpunodes/status"):
        found = on(resource)
        (policy,) = (one for one in found if operations(one) == ["CREATE", "UPDATE"])
        assert policy["matchConditions"] == []
        assert [operations(one) for one in found if one != policy] in ([], [["DELETE"]])


def operations(policy: dict[str, Any]) -> list[str]:
    found: list[str] = policy["matchConstraints"]["resourceRules"][0]["operations"]
    return found


def test_a_pod_that_is_created_is_looked_at_once_and_one_that_changes_only_where_it_is_ours() -> (
    None
):
    created, changed = sorted(
        on("pods"), key=lambda one: one["matchConstraints"]["resourceRules"][0]["operations"]
    )
    assert created["matchConditions"] == []
    assert changed["matchConstraints"]["objectSelector"] == {
        "matchLabels": {"gpupool.dev/managed": "true"}
    }
