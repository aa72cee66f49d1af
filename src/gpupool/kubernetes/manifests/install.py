"""Everything that gpupool puts into a cluster before its own pods: names, accounts, rights,
definitions, policies.

The Helm chart is made of the same objects. Each account may do what it needs and nothing else; what
a rule of RBAC cannot say (an agent and its own node) the policies do.
"""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.manifests import address_policy, native_policy
from gpupool.kubernetes.manifests.admission_policies import policies
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.resources.names import GROUP
from gpupool.kubernetes.resources.pod_matcher import (
    may_request_gpu_expression,
    requests_gpu_expression,
)

Object = dict[str, Any]
NAMESPACE = "gpupool"
CONTROLLER = "gpupool-controller"
AGENT = "gpupool-agent"
WEBHOOK = "gpupool-webhook"
METER = "gpupool-meter"
KUBE_OVN_ROLE = "gpupool-controller-kube-ovn"
SECRET = "gpupool-webhook-certificates"
ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_KUBE_OVN_RESOURCES = [
    "vpcs",
    "subnets",
    "qos-policies",
    "vpc-nat-gateways",
    "iptables-eips",
    "iptables-snat-rules",
    "iptables-fip-rules",
    "iptables-dnat-rules",
    "switch-lb-rules",
]


def user_of(account: str, namespace: str = NAMESPACE) -> str:
    """How the API server calls a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


def objects(namespace: str = NAMESPACE) -> list[Object]:
    """In the order in which they can be made."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    made = [space, *crds()]
    for account, rules in _RIGHTS.items():
        made += _account(account, rules, namespace)
    for account, rules in _ROLES.items():
        made += [_role(account, namespace, rules), _role_binding(account, namespace)]
    return [
        *made,
        *policies(*(user_of(account, namespace) for account in (CONTROLLER, AGENT, METER))),
    ]


def webhook(namespace: str = NAMESPACE, url: str = "") -> Object:
    """Return the configuration of the admission webhook; applied once the webhook runs.

    Only pods that name GPUs in the words of some dialect reach it. Pods with words that only look
    like that get a warning, and are created also while no webhook answers.

    Args:
        url: address of a webhook that does not run behind its Service.
    """
    service = {"namespace": namespace, "name": WEBHOOK, "path": "/admit", "port": 443}
    hook = {
        "name": f"pods.{GROUP}",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "IfNeeded",
        "clientConfig": {"url": url} if url else {"service": service},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "namespaceSelector": {
            "matchExpressions": [_not_in("kubernetes.io/metadata.name", "kube-system", namespace)]
        },
        "matchConditions": [
            {"name": "asks-for-cards", "expression": requests_gpu_expression()},
            {"name": "is-not-done-yet", "expression": f"!({native_policy.done()})"},
        ],
    }
    warned = {"name": "seems-to-ask-for-cards", "expression": may_request_gpu_expression()}
    warning = {
        **hook,
        "name": f"warnings.{GROUP}",
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 2,
        "matchConditions": [warned],
    }
    hooks = [hook, warning]
    meta = {"name": WEBHOOK}
    return {
        "apiVersion": ADMISSION,
        "kind": "MutatingWebhookConfiguration",
        "metadata": meta,
        "webhooks": hooks,
    }


def native(namespace: str = NAMESPACE) -> list[Object]:
    """What admits plain native pods inside the API server, where that is 1.36 or newer."""
    return native_policy.objects("kube-system", namespace)


def kube_ovn(namespace: str = NAMESPACE, kube_ovn_namespace: str = "kube-system") -> list[Object]:
    """What networks of Tenants need: rights on Kube-OVN's objects, and the policy on addresses."""
    account = [
        _rule("kubeovn.io", _KUBE_OVN_RESOURCES, ["get", "list", "create", "patch", "delete"]),
        _rule("kubeovn.io", ["vips"], ["delete"]),  # probe addresses that stay behind
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"]),
        _rule(
            "admissionregistration.k8s.io",
            ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            ["get"],
        ),
    ]
    _, role, binding = _account(CONTROLLER, account, namespace)
    for made in (role, binding):
        made["metadata"]["name"] = KUBE_OVN_ROLE
    binding["roleRef"]["name"] = KUBE_OVN_ROLE
    return [role, binding, *address_policy.objects(kube_ovn_namespace)]


def _not_in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


_RIGHTS: dict[str, list[Object]] = {
    CONTROLLER: [
        _rule("", ["nodes"], _READ),
        _rule("", ["nodes/status"], ["patch"]),
        _rule("", ["pods"], [*_READ, "patch", "delete"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["pods/binding"], ["create"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["namespaces", "persistentvolumeclaims", "persistentvolumes"], _READ),
        _rule("storage.k8s.io", ["csinodes", "storageclasses", "volumeattachments"], _READ),
        _rule("", ["events"], ["create", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
        _rule(
            GROUP, ["gpunodes"], [*_READ, "create", "patch", "delete"]
        ),  # delete: metered ones without a Node
        _rule(GROUP, ["tenants", "reservations"], _READ),
        _rule(GROUP, ["poolsettings"], [*_READ, "create"]),
        _rule(GROUP, ["tenants/status", "reservations/status", "poolsettings/status"], ["patch"]),
    ],
    AGENT: [
        _rule(GROUP, ["gpunodes"], [*_READ, "create"]),
        _rule(GROUP, ["gpunodes/status"], ["patch"]),
        _rule("", ["pods", "nodes"], _READ),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),  # on pods that leave their fence
    ],
    WEBHOOK: [
        _rule(GROUP, ["gpunodes", "tenants", "poolsettings"], _READ),
        _rule("", ["nodes"], _READ),
        {
            **_rule(
                "admissionregistration.k8s.io", ["mutatingwebhookconfigurations"], ["get", "patch"]
            ),
            "resourceNames": [WEBHOOK],
        },
    ],
    METER: [_rule(GROUP, ["gpunodes"], [*_READ, "patch"])],  # patch: an annotation, by the policy
}


def _account(name: str, rules: list[Object], namespace: str) -> list[Object]:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    return [account, role, binding]


def _role(account: str, namespace: str, rules: list[Object]) -> Object:
    meta = {"name": account, "namespace": namespace}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules}


def _role_binding(account: str, namespace: str) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": account, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


#: What they may do in gpupool's own namespace.
_ROLES: dict[str, list[Object]] = {
    CONTROLLER: [
        _rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
        _rule("", ["configmaps"], ["create"]),  # the journal of what the meter has not told
    ],
    WEBHOOK: [
        _rule("", ["secrets"], ["create"]),
        {**_rule("", ["secrets"], ["get", "update"]), "resourceNames": [SECRET]},
    ],
    METER: [_rule("", ["configmaps"], ["list", "delete"])],
}


_PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def path_of(made: Object) -> str:
    """Where the object is in the API."""
    version = made["apiVersion"]
    meta = made["metadata"]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    place = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    return f"{root}{place}/{_PLURALS[made['kind']]}/{meta['name']}"
