"""The part of the definition of `Tenant` that describes its network."""

from __future__ import annotations

from gpupool.kubernetes.manifests.openapi import Schema, array_of, record, text, whole
from gpupool.kubernetes.resources.tenant_network import LONGEST_PART, NAME, PROTOCOLS

_ADDRESS = text(15)
_NAME = {**text(LONGEST_PART), "pattern": NAME}
_PORT = {**whole(65535), "minimum": 1}
_PROTOCOL = {"type": "string", "enum": list(PROTOCOLS), "default": PROTOCOLS[0]}
#: Labels and their values have 63 characters.
_LABELS = {"type": "object", "maxProperties": 8, "additionalProperties": text(63)}
_MOST_PARTS = 64


def tenant_network() -> Schema:
    """Return the schema of `spec.network`."""
    subnet = record(
        {
            "name": _NAME,
            "cidr": {**text(18), "description": "an IPv4 prefix; it cannot change"},
            "gateway": {**_ADDRESS, "description": "its router; left out: the first address"},
            "namespaces": {
                **array_of(text(63), 256),
                "description": "whose pods are in it; left out: all of the Tenant's",
            },
            "excluded": {
                **array_of(_ADDRESS, 256),
                "description": "addresses that no pod gets by itself",
            },
            "mtu": {**whole(9000), "minimum": 576},
        },
        required=("name", "cidr"),
    )
    address = record(
        {
            "name": _NAME,
            "address": {**_ADDRESS, "description": "left out: Kube-OVN chooses one"},
            "megabits": {
                **whole(1_000_000),
                "minimum": 1,
                "description": "limit in either direction, in Mbit/s",
            },
            "snat": {
                **array_of(_NAME, _MOST_PARTS),
                "description": "subnets whose packets leave with this address",
            },
        },
        required=("name",),
    )
    forward = record(
        {
            "name": _NAME,
            "address": {**_NAME, "description": "the name of one of the addresses"},
            "port": _PORT,
            "protocol": _PROTOCOL,
            "target": {**_ADDRESS, "description": "an address in a subnet of the network"},
            "targetPort": {**_PORT, "description": "left out: the same as port"},
        },
        required=("name", "address", "port", "target"),
    )
    gateway = record(
        {
            "externalSubnet": {**text(253), "description": "a Subnet of Kube-OVN, made by you"},
            "subnet": {**_NAME, "description": "where it stands; left out: the first subnet"},
            "address": {**_ADDRESS, "description": "its own, in that subnet"},
            "nodeSelector": _LABELS,
            "addresses": array_of(address, _MOST_PARTS),
            "forwards": array_of(forward, _MOST_PARTS),
        },
        required=("externalSubnet", "address"),
    )
    port = record(
        {"port": _PORT, "targetPort": _PORT, "protocol": _PROTOCOL},
        required=("port",),
    )
    balancer = record(
        {
            "name": _NAME,
            "address": {**_ADDRESS, "description": "an address in a subnet of the network"},
            "namespace": text(63),
            "selector": {**_LABELS, "description": "labels of the pods behind it"},
            "ports": array_of(port, 16),
        },
        required=("name", "address", "namespace", "selector", "ports"),
    )
    network = record(
        {
            "subnets": {**array_of(subnet, _MOST_PARTS), "minItems": 1},
            "peers": {
                **array_of(text(63), 32),
                "x-kubernetes-list-type": "set",
                "description": "Tenants to be joined with; each must name this one",
            },
            "gateway": gateway,
            "balancers": array_of(balancer, _MOST_PARTS),
        },
        required=("subnets",),
    )
    return {**network, "description": "a network of its own, carried by Kube-OVN"}
