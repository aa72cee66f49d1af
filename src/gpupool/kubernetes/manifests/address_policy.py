"""The policy that keeps pods and services in the network of their own tenant, and under its limits.

Kube-OVN gives a pod an address in the subnet that an annotation of the pod names, whichever
namespaces the subnet lists: a pod of one tenant gets into the network of another. A service does the
same with the address of a load balancer, and a pod sets its own bandwidth. With the policy Kube-OVN
alone may set such annotations. Networks are not compiled without it
(docs/decisions/0077-tenant-networks-on-kubernetes.md and 0094-more-of-kube-ovn.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.base.errors import NoPermission
from gpupool.kubernetes.manifests.admission_policies import Object, bind_policy
from gpupool.kubernetes.resources.names import GROUP

NAME = f"addresses.{GROUP}"
#: Accounts of Kube-OVN's controller and of its node agent, as its charts call them.
ACCOUNTS = ("ovn", "kube-ovn-cni")
#: What follows `PROVIDER.kubernetes.io/` in annotations that say where a pod or a service is
#: attached, with which address and limits, and whose packets it may send or get
#: (pkg/util/const.go at 1533681d, 1.17.0).
SUFFIXES = (
    "aaps",
    "allocated",
    "attachmentprovider",
    "bgp",
    "cidr",
    "default_route",
    "dhcp-v4-options",
    "dhcp-v6-options",
    "egress_burst",
    "egress_rate",
    "eip",
    "exclude_ips",
    "gateway",
    "ingress_burst",
    "ingress_rate",
    "ip_address",
    "ip_pool",
    "jitter",
    "latency",
    "layer2_forward",
    "limit",
    "logical_router",
    "logical_switch",
    "loss",
    "mac_address",
    "mirror",
    "north_gateway",
    "port_security",
    "port_vips",
    "provider_network",
    "routed",
    "router_lb_vip",
    "routes",
    "security_groups",
    "service_external_ip_from_subnet",
    "snat",
    "switch_lb_vip",
    "vip",
    "virtualmachine",
    "vlan_id",
    "vpc",
    "vpc_cidrs",
    "vpc_nat_gw",
)


def objects(kube_ovn_namespace: str) -> list[Object]:
    """Return the policy and its binding, for Kube-OVN in this namespace.

    Pods and services of that namespace are not looked at: the gateways' are there, made by a StatefulSet.
    """
    users = ", ".join(
        f"'system:serviceaccount:{kube_ovn_namespace}:{account}'" for account in ACCOUNTS
    )
    is_address = " || ".join(f"key.endsWith('.kubernetes.io/{suffix}')" for suffix in SUFFIXES)
    before = "(oldObject == null ? {} : oldObject.metadata.?annotations.orValue({}))"
    now = "object.metadata.?annotations.orValue({})"
    # Both directions: taking an annotation away moves a pod as well, at its next start, or lifts its
    # limit. Kube-OVN alone gives a service such annotations and gives them again, so a client that
    # replaces a service without them is let in.
    kept = f"{before}[?key] == {now}[?key]"
    rule = (
        f"request.userInfo.username in [{users}]"
        f" || ({now}.all(key, !({is_address}) || {kept})"
        f" && (request.resource.resource == 'services'"
        f" || {before}.all(key, !({is_address}) || {kept})))"
    )
    message = (
        f"{NoPermission.code}: annotations that choose a network, an address or a limit are"
        " Kube-OVN's alone; the subnet of a pod is that of its namespace: kubectl describe tenant"
    )
    matched = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [
            "pods",
            "pods/status",
            "pods/ephemeralcontainers",
            "pods/resize",
            "pods/binding",
            "bindings",
            "namespaces",
            "namespaces/status",
            "namespaces/finalize",
            "services",
            "services/status",
        ],
    }
    elsewhere = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": [kube_ovn_namespace],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [matched],
                "namespaceSelector": {"matchExpressions": [elsewhere]},
            },
            "validations": [{"expression": rule, "message": message, "reason": "Forbidden"}],
        },
    }
    return [policy, bind_policy(NAME)]


def find_fault(
    policy: Mapping[str, Any] | None, binding: Mapping[str, Any] | None, kube_ovn_namespace: str
) -> str:
    """Return why the policy of the cluster does not protect; empty where it does."""
    wanted_policy, wanted_binding = objects(kube_ovn_namespace)
    if policy is None or binding is None:
        return f"the ValidatingAdmissionPolicy {NAME} or its binding is missing"
    for wanted, found in ((wanted_policy, policy), (wanted_binding, binding)):
        if _strip_defaults(found["spec"]) != _strip_defaults(wanted["spec"]):
            return f"{wanted['kind']} {NAME} is not the one that gpupool installs"
    return ""


def _strip_defaults(value: Any) -> Any:
    """The value without empty parts and without what the API server adds."""
    if isinstance(value, Mapping):
        parts = {name: _strip_defaults(part) for name, part in value.items()}
        for name, default in (("matchPolicy", "Equivalent"), ("scope", "*")):
            if parts.get(name) == default:
                del parts[name]
        return {name: part for name, part in parts.items() if part not in ({}, [], None, "")}
    if isinstance(value, list):
        return [_strip_defaults(part) for part in value]
    return value
