"""Which networks are read, and what a fault in one is called."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadOption, GpupoolError, OverlappingSubnets
from gpupool.kubernetes.manifests.crds import crds
from gpupool.kubernetes.resources.tenant_network import TenantNetwork
from tests.support.kube_ovn_networks import build_network, build_wide_network
from tests.unit.kubernetes.resources.test_gpu_node import check


def read(**changes: Any) -> TenantNetwork:
    return TenantNetwork.from_json({**build_wide_network(), **changes})


def test_a_wide_network_is_read_with_its_defaults() -> None:
    network = read()
    train, serve = network.subnets
    assert (str(train.gateway), str(serve.gateway)) == ("10.1.0.1", "10.1.1.1")
    assert network.gateway is not None
    (forward,) = network.gateway.forwards
    assert (forward.protocol, forward.target_port) == ("tcp", 22)
    assert network.gateway.addresses[1].address is None


def test_addresses_with_a_user_are_reserved_in_their_subnet() -> None:
    network = read()
    reserved = [[str(one) for one in network.list_reserved(each)] for each in network.subnets]
    assert reserved == [["10.1.0.1", "10.1.0.9", "10.1.0.254"], ["10.1.1.1", "10.1.1.200"]]


def test_the_definition_takes_the_wide_network() -> None:
    versions = crds()[1]["spec"]["versions"]
    spec = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    check(build_wide_network(), spec["properties"]["network"])


SUBNETS = build_wide_network()["subnets"]
GATEWAY = build_wide_network()["gateway"]
BALANCER = build_wide_network()["balancers"][0]


def subnets_with(**changes: Any) -> dict[str, Any]:
    return {"subnets": [{**SUBNETS[0], **changes}, SUBNETS[1]]}


def gateway_with(**changes: Any) -> dict[str, Any]:
    return {"gateway": {**copy.deepcopy(GATEWAY), **changes}}


FORWARD = GATEWAY["forwards"][0]
FAULTS: dict[str, tuple[dict[str, Any], type[GpupoolError], str]] = {
    "none": ({"subnets": []}, BadOption, "no subnet"),
    "name": (subnets_with(name="a--b"), BadOption, "'a--b' names no part"),
    "long": (subnets_with(name="a" * 21), BadOption, "names no part"),
    "twice": (subnets_with(name="serve"), BadOption, "two of the subnets are called serve"),
    "host bits": (subnets_with(cidr="10.1.0.1/24"), BadAddress, "has host bits set"),
    "IPv6": (subnets_with(cidr="fd00::/64"), BadAddress, "is not an IPv4 prefix"),
    "tiny": (subnets_with(cidr="10.1.0.0/30"), BadAddress, "has 4 addresses"),
    "links": (subnets_with(cidr="169.254.0.0/16"), BadAddress, "joins peered networks"),
    "overlap": (
        subnets_with(cidr="10.1.0.0/23", gateway="10.1.0.1"),
        OverlappingSubnets,
        "train 10.1.0.0/23 and serve 10.1.1.0/24",
    ),
    "router": (subnets_with(gateway="10.9.0.1"), BadAddress, "10.9.0.1 is not a host"),
    "broadcast": (subnets_with(excluded=["10.1.0.255"]), BadAddress, "10.1.0.255 is not a host"),
    "gateway's subnet": (gateway_with(subnet="x"), BadOption, "the gateway names the subnet 'x'"),
    "gateway's address": (gateway_with(address="10.1.1.7"), BadAddress, "not a host of subnet"),
    "no outside": (gateway_with(externalSubnet=""), BadOption, "no externalSubnet"),
    "taken": (gateway_with(address="10.1.0.1"), BadAddress, "wanted by the router of train"),
    "forward's address": (
        gateway_with(forwards=[{**FORWARD, "address": "x"}]),
        BadOption,
        "names the address 'x'",
    ),
    "forward's target": (
        gateway_with(forwards=[{**FORWARD, "target": "10.9.0.1"}]),
        BadAddress,
        "10.9.0.1, which is in no subnet",
    ),
    "one door": (
        gateway_with(forwards=[FORWARD, {**FORWARD, "name": "b"}]),
        BadOption,
        "forwards ssh and b both take port 2222/tcp of in",
    ),
    "balancer's address": (
        {"balancers": [{**BALANCER, "address": "10.9.0.1"}]},
        BadAddress,
        "in no subnet",
    ),
    "balancer's pods": (
        {"balancers": [{**BALANCER, "selector": {}}]},
        BadOption,
        "selects no pods",
    ),
    "balancer's ports": ({"balancers": [{**BALANCER, "ports": []}]}, BadOption, "has no port"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_with_what_is_wrong(fault: str) -> None:
    changes, kind, words = FAULTS[fault]
    with pytest.raises(kind, match=words):
        read(**changes)


def test_subnets_of_one_network_may_touch() -> None:
    both = [{"name": "a", "cidr": "10.0.0.0/25"}, {"name": "b", "cidr": "10.0.0.128/25"}]
    assert len(TenantNetwork.from_json({**build_network(), "subnets": both}).subnets) == 2
