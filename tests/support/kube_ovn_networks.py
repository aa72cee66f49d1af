"""Networks of Tenants as tests write them, and Kube-OVN's definitions as far as gpupool uses them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from gpupool.kubernetes.networks.judgement import NetworkWish
from gpupool.kubernetes.networks.kube_ovn import GROUP, KIND_BY_NAME, KINDS
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.tenant_network import TenantNetwork

#: A checkout of github.com/kubeovn/kube-ovn, for tests with its own definitions and controller.
CHECKOUT_VARIABLE = "GPUPOOL_KUBE_OVN"
#: In the checkout.
DEFINITIONS = "charts/kube-ovn-v2/crds/kube-ovn-crd.yaml"

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer"}
_FLAG: Json = {"type": "boolean"}
_TEXTS: Json = {"type": "array", "items": _TEXT}


def _record(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _list_of(**properties: Json) -> Json:
    return {"type": "array", "items": _record(**properties)}


#: The fields that gpupool writes, of 1.17.0 (1533681d, pkg/apis/kubeovn/v1).
#: tests/kubernetes/operators/test_kube_ovn_checkout.py compares them with the definitions themselves.
INTERFACE: dict[str, Json] = {
    "Vpc": _record(
        namespaces=_TEXTS,
        staticRoutes=_list_of(cidr=_TEXT, nextHopIP=_TEXT, policy=_TEXT, routeTable=_TEXT),
        policyRoutes=_list_of(priority=_WHOLE, match=_TEXT, action=_TEXT),
        vpcPeerings=_list_of(remoteVpc=_TEXT, localConnectIP=_TEXT),
    ),
    "Subnet": _record(
        vpc=_TEXT,
        protocol=_TEXT,
        cidrBlock=_TEXT,
        gateway=_TEXT,
        excludeIps=_TEXTS,
        namespaces=_TEXTS,
        natOutgoing=_FLAG,
        private=_FLAG,
        enableLb=_FLAG,
        enableDHCP=_FLAG,
        mtu=_WHOLE,
        acls=_list_of(direction=_TEXT, priority=_WHOLE, match=_TEXT, action=_TEXT),
        routeTable=_TEXT,
    ),
    "QoSPolicy": _record(
        bindingType=_TEXT,
        shared=_FLAG,
        bandwidthLimitRules=_list_of(
            name=_TEXT,
            direction=_TEXT,
            rateMax=_TEXT,
            burstMax=_TEXT,
            priority=_WHOLE,
            interface=_TEXT,
        ),
    ),
    "VpcNatGateway": _record(
        vpc=_TEXT,
        subnet=_TEXT,
        lanIp=_TEXT,
        externalSubnets=_TEXTS,
        selector=_TEXTS,
        qosPolicy=_TEXT,
    ),
    "IptablesEIP": _record(natGwDp=_TEXT, externalSubnet=_TEXT, v4ip=_TEXT, qosPolicy=_TEXT),
    "IptablesSnatRule": _record(eip=_TEXT, internalCIDR=_TEXT),
    "IptablesFIPRule": _record(eip=_TEXT, internalIp=_TEXT),
    "IptablesDnatRule": _record(
        eip=_TEXT, externalPort=_TEXT, protocol=_TEXT, internalIp=_TEXT, internalPort=_TEXT
    ),
    "SwitchLBRule": _record(
        vip=_TEXT,
        namespace=_TEXT,
        selector=_TEXTS,
        sessionAffinity=_TEXT,
        ports=_list_of(name=_TEXT, port=_WHOLE, targetPort=_WHOLE, protocol=_TEXT),
    ),
}


def find_checkout() -> Path | None:
    """Return the checkout of Kube-OVN that the tests may use; None where there is none."""
    named = os.environ.get(CHECKOUT_VARIABLE, "")
    return Path(named) if named and (Path(named) / DEFINITIONS).exists() else None


def build_definition(kind: str) -> Json:
    """Return a definition with the fields that gpupool writes."""
    plural = KIND_BY_NAME[kind].plural
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _record(spec=INTERFACE[kind], status=status)},
        "subresources": {"status": {}},
    }
    called = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": called, "versions": [version]},
    }


def list_definitions() -> list[Json]:
    """Return Kube-OVN's own definitions where there is a checkout, else those of the interface."""
    checkout = find_checkout()
    if checkout is None:
        return [build_definition(kind.name) for kind in KINDS]
    whole = yaml.load_all((checkout / DEFINITIONS).read_text(), yaml.CSafeLoader)
    return [one for one in whole if one]


def build_network(cidr: str = "10.1.0.0/24", *peers: str) -> Json:
    """Return a network with one subnet, as operators write it."""
    return {"subnets": [{"name": "main", "cidr": cidr}], "peers": list(peers)}


def build_wide_network() -> Json:
    """Return a network with everything that one can have."""
    return {
        "subnets": [
            {
                "name": "train",
                "cidr": "10.1.0.0/24",
                "namespaces": ["vision-train"],
                "excluded": ["10.1.0.9"],
                "mtu": 1400,
                "cidr6": "fd00:1::/64",
                "accepts": [
                    {"protocol": "tcp", "port": 8000, "lastPort": 8100, "from": "10.1.1.0/24"},
                    {"protocol": "icmp"},
                ],
            },
            {"name": "serve", "cidr": "10.1.1.0/24", "namespaces": ["vision-serve"]},
        ],
        "peers": ["speech"],
        "gateway": {
            "externalSubnet": "outside",
            "subnet": "train",
            "address": "10.1.0.254",
            "megabits": 500,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "addresses": [
                {
                    "name": "out",
                    "address": "203.0.113.10",
                    "megabits": 100,
                    "snat": ["train", "serve"],
                },
                {"name": "in"},
                {"name": "own", "target": "10.1.0.11"},
            ],
            "forwards": [
                {
                    "name": "ssh",
                    "address": "in",
                    "port": 2222,
                    "target": "10.1.0.10",
                    "targetPort": 22,
                }
            ],
        },
        "balancers": [
            {
                "name": "web",
                "address": "10.1.1.200",
                "namespace": "vision-serve",
                "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": 8080}],
            }
        ],
        "routes": [
            {"prefix": "172.20.0.0/16", "via": "10.1.0.20"},
            {"prefix": "172.20.99.0/24", "discard": True},
            {"prefix": "0.0.0.0/0", "via": "10.1.0.20", "subnet": "serve"},
        ],
    }


def build_tenant(name: str, network: Json | None, *namespaces: str) -> Json:
    """Return a Tenant as operators write it."""
    spec: Json = {"namespaces": list(namespaces)}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": spec if network is None else {**spec, "network": network},
    }


def wish_of(name: str, network: Json | None, *namespaces: str) -> NetworkWish:
    """Return the wish of that Tenant."""
    read = None if network is None else TenantNetwork.from_json(network)
    return NetworkWish(name, tuple(sorted(namespaces)), read)
