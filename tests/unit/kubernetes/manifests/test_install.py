"""What is installed can be made in its order, and each account may do what it needs alone."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.manifests import install

ROOT = "/apis/rbac.authorization.k8s.io/v1"


def rules_of(account: str, kind: str) -> list[dict[str, Any]]:
    (found,) = (
        made
        for made in install.objects("space")
        if made["kind"] == kind and made["metadata"]["name"] == account
    )
    rules: list[dict[str, Any]] = found["rules"]
    return rules


def verbs_on(account: str, resource: str, kind: str = "ClusterRole") -> set[str]:
    found: set[str] = set()
    for rule in rules_of(account, kind):
        if resource in rule["resources"]:
            found |= set(rule["verbs"])
    return found


def test_namespace_and_definitions_come_before_what_is_in_them() -> None:
    kinds = [made["kind"] for made in install.objects("space")]
    assert kinds[0] == "Namespace"
    last_definition = len(kinds) - 1 - kinds[::-1].index("CustomResourceDefinition")
    assert last_definition < kinds.index("ServiceAccount") < kinds.index("ClusterRoleBinding")


def test_every_object_has_a_path_of_its_own() -> None:
    paths = [install.path_of(made) for made in (*install.objects("space"), install.webhook())]
    assert len(set(paths)) == len(paths)
    assert paths[0] == "/api/v1/namespaces/space"
    assert f"{ROOT}/namespaces/space/roles/{install.CONTROLLER}" in paths
    assert f"{ROOT}/clusterroles/{install.AGENT}" in paths


def test_bindings_give_rights_to_accounts_of_the_namespace() -> None:
    for made in install.objects("space"):
        for subject in made.get("subjects", ()):
            assert subject["namespace"] == "space"
            assert subject["name"] == made["roleRef"]["name"] == made["metadata"]["name"]
    assert install.user_of("a", "space") == "system:serviceaccount:space:a"


def test_agent_writes_reports_and_no_ledger() -> None:
    assert verbs_on(install.AGENT, "gpunodes") == {"get", "list", "watch", "create"}
    assert verbs_on(install.AGENT, "gpunodes/status") == {"patch"}
    assert verbs_on(install.AGENT, "pods") == {"get", "list", "watch"}


def test_webhook_changes_its_own_secret_and_configuration_alone() -> None:
    changes = []
    for rule in (
        *rules_of(install.WEBHOOK, "Role"),
        *rules_of(install.WEBHOOK, "ClusterRole"),
    ):
        if {"update", "patch", "delete"} & set(rule["verbs"]):
            changes.append((rule["resources"], rule["resourceNames"]))
    assert changes == [
        (["secrets"], [install.SECRET]),
        (["mutatingwebhookconfigurations"], [install.WEBHOOK]),
    ]


def test_webhook_leaves_its_own_namespace_alone_and_only_warns_of_typos() -> None:
    hook, warning = install.webhook("space")["webhooks"]
    (expression,) = hook["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["kube-system", "space"]
    assert (hook["failurePolicy"], warning["failurePolicy"]) == ("Fail", "Ignore")
    assert hook["clientConfig"]["service"]["namespace"] == "space"
    by_address = install.webhook("space", "https://10.0.0.1/admit")["webhooks"]
    assert {str(one["clientConfig"]) for one in by_address} == {"{'url': 'https://10.0.0.1/admit'}"}
