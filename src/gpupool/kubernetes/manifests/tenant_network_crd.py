"""The part of the definition of `Tenant` that describes its network."""

from __future__ import annotations

from gpupool.kubernetes.manifests.openapi import Schema, array_of, record, text, whole
from gpupool.kubernetes.resources.network_parts.subnets import ACCEPTED_PROTOCOLS
from gpupool.kubernetes.resources.network_parts.values import LONGEST_PART, NAME, PROTOCOLS

_ADDRESS = text(15)
_ADDRESS6 = text(45)
_NAME = {**text(LONGEST_PART), "pattern": NAME}
_PORT = {**whole(65535), "minimum": 1}
_PROTOCOL = {"type": "string", "enum": list(PROTOCOLS), "default": PROTOCOLS[0]}
#: Labels and their values have 63 characters.
_LABELS = {"type": "object", "maxProperties": 8, "additionalProperties": text(63)}
_MOST_PARTS = 64
#: Lines of accepted traffic of a subnet. Their rules name what is left of all addresses and ports,
#: which grows with the square of them.
_MOST_TRAFFIC = 16
_MEGABITS = {**whole(1_000_000), "minimum": 1}


def tenant_network() -> Schema:
    """Return the schema of `spec.network`."""
    traffic = record(
        {
            "protocol": {
                "type": "string",
                "enum": list(ACCEPTED_PROTOCOLS),
                "default": ACCEPTED_PROTOCOLS[0],
            },
            "port": {**_PORT, "description": "left out: every port"},
            "lastPort": {**_PORT, "description": "the last of several; left out: port alone"},
            "from": {**text(49), "description": "a prefix; left out: every address"},
        }
    )
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
            "cidr6": {
                **text(49),
                "description": "a /64 of fd00::/8 beside the IPv4 prefix; it cannot change",
            },
            "gateway6": {**_ADDRESS6, "description": "its router; left out: the first address"},
            "accepts": {
                **array_of(traffic, _MOST_TRAFFIC),
                "description": "what its pods take from outside of it; left out: everything",
            },
        },
        required=("name", "cidr"),
    )
    address = record(
        {
            "name": _NAME,
            "address": {**_ADDRESS, "description": "left out: Kube-OVN chooses one"},
            "megabits": {**_MEGABITS, "description": "limit in either direction, in Mbit/s"},
            "target": {
                **_ADDRESS,
                "description": "an address in the network that has this one for itself",
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
            "megabits": {
                **_MEGABITS,
                "description": "limit of the addresses without one of their own, together",
            },
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
    route = record(
        {
            "prefix": {**text(18), "description": "an IPv4 prefix"},
            "via": {**_ADDRESS, "description": "an address in the network that forwards packets"},
            "discard": {"type": "boolean", "description": "true: packets are dropped"},
            "subnet": {**_NAME, "description": "whose packets; left out: those of all"},
        },
        required=("prefix",),
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
            "routes": array_of(route, _MOST_PARTS),
        },
        required=("subnets",),
    )
    return {**network, "description": "a network of its own, carried by Kube-OVN"}
