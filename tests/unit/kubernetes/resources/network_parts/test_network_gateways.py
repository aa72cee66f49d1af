"""Floating addresses and limits of gateways. The rest is in test_tenant_network.py."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadOption
from gpupool.kubernetes.resources.network_parts.network_gateways import (
    NetworkGateway,
    read_gateway,
)
from gpupool.kubernetes.resources.network_parts.subnets import read_subnet

SUBNETS = (read_subnet({"name": "main", "cidr": "10.1.0.0/24"}),)
FLOATING = {"name": "own", "target": "10.1.0.10"}


def read(*addresses: dict[str, Any], **fields: Any) -> NetworkGateway:
    found = {"externalSubnet": "outside", "address": "10.1.0.254", "addresses": list(addresses)}
    return read_gateway({**found, **fields}, SUBNETS)


def test_a_floating_address_and_a_limit_of_the_gateway_are_read() -> None:
    gateway = read(FLOATING, megabits=500)
    assert gateway.megabits == 500
    assert gateway.addresses[0].target == IPv4Address("10.1.0.10")
    assert read().megabits is None


def test_a_floating_address_is_of_one_pod_alone() -> None:
    with pytest.raises(BadOption, match=r"own belongs to 10.1.0.10 alone .* snat of main"):
        read({**FLOATING, "snat": ["main"]})
    forward = {"name": "ssh", "address": "own", "port": 22, "target": "10.1.0.10"}
    with pytest.raises(BadOption, match=r"own belongs to 10.1.0.10 alone .* forward ssh"):
        read(FLOATING, forwards=[forward])
    assert read(FLOATING, {"name": "in"}, forwards=[{**forward, "address": "in"}])


def test_a_pod_has_one_floating_address() -> None:
    with pytest.raises(BadOption, match="addresses own and more both belong to"):
        read(FLOATING, {**FLOATING, "name": "more"})


def test_a_floating_address_leads_into_the_network() -> None:
    with pytest.raises(BadAddress, match=r"address own belongs to 10.9.0.1, which is in no"):
        read({**FLOATING, "target": "10.9.0.1"})
