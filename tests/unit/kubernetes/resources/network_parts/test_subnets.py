"""Subnets with IPv6, and the traffic that their pods accept."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadOption, GpupoolError, OverlappingSubnets
from gpupool.kubernetes.resources.network_parts.subnets import (
    AcceptedTraffic,
    NetworkSubnet,
    check_inside,
    check_overlaps,
    list_prefixes,
    read_subnet,
)


def read(**fields: Any) -> NetworkSubnet:
    return read_subnet({"name": "main", "cidr": "10.1.0.0/24", **fields})


def test_without_ipv6_a_subnet_has_no_router_of_that_family() -> None:
    plain = read()
    assert (plain.cidr6, plain.gateway6, plain.accepts) == (None, None, None)


def test_the_ipv6_router_has_the_first_address_or_its_own() -> None:
    assert read(cidr6="fd00:1::/64").gateway6 == IPv6Address("fd00:1::1")
    assert read(cidr6="fd00:1::/64", gateway6="fd00:1::9").gateway6 == IPv6Address("fd00:1::9")


def test_no_rule_at_all_is_not_the_same_as_everything() -> None:
    assert read(accepts=[]).accepts == ()


def test_traffic_has_one_port_or_several() -> None:
    accepts = [
        {"protocol": "tcp", "port": 80, "from": "10.9.0.0/16"},
        {"protocol": "udp", "port": 1, "lastPort": 9},
        {},
    ]
    assert read(accepts=accepts).accepts == (
        AcceptedTraffic("tcp", 80, 80, IPv4Network("10.9.0.0/16")),
        AcceptedTraffic("udp", 1, 9),
        AcceptedTraffic("any"),
    )


FAULTS: dict[str, tuple[dict[str, Any], type[GpupoolError], str]] = {
    "public": ({"cidr6": "2001:db8::/64"}, BadAddress, "not a /64 of fd00::/8"),
    "long": ({"cidr6": "fd00::/72"}, BadAddress, "not a /64 of fd00::/8"),
    "links": ({"cidr6": "fd67:7075:706f:1::/64"}, BadAddress, "joins peered networks"),
    "family": ({"cidr6": "10.0.0.0/8"}, BadAddress, "is not an IPv6 prefix"),
    "router alone": ({"gateway6": "fd00::1"}, BadOption, "a gateway6 and no cidr6"),
    "router elsewhere": (
        {"cidr6": "fd00:1::/64", "gateway6": "fd00:2::1"},
        BadAddress,
        "fd00:2::1 is not a host of subnet main",
    ),
    "router is the prefix": (
        {"cidr6": "fd00:1::/64", "gateway6": "fd00:1::"},
        BadAddress,
        "is not a host of subnet main",
    ),
    "ports without a protocol": ({"accepts": [{"port": 80}]}, BadOption, "any, which has no ports"),
    "ports of icmp": (
        {"accepts": [{"protocol": "icmp", "port": 8}]},
        BadOption,
        "port 8 of icmp, which has no ports",
    ),
    "turned": (
        {"accepts": [{"protocol": "tcp", "port": 9, "lastPort": 8}]},
        BadOption,
        "ports from 9 to 8",
    ),
    "the last alone": (
        {"accepts": [{"protocol": "tcp", "lastPort": 8}]},
        BadOption,
        "ports from None to 8",
    ),
    "source": ({"accepts": [{"from": "10.1.0.1/24"}]}, BadAddress, "is not an IPv4 prefix"),
    "source without IPv6": ({"accepts": [{"from": "fd00::/64"}]}, BadAddress, "has no IPv6"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_subnet_is_refused_with_what_is_wrong(fault: str) -> None:
    fields, kind, words = FAULTS[fault]
    with pytest.raises(kind, match=words):
        read(**fields)


def test_subnets_may_not_overlap_in_ipv6_alone() -> None:
    other = read_subnet({"name": "other", "cidr": "10.2.0.0/24", "cidr6": "fd00:1::/64"})
    with pytest.raises(OverlappingSubnets, match="main fd00:1::/64 and other fd00:1::/64"):
        check_overlaps((read(cidr6="fd00:1::/64"), other))
    check_overlaps((read(), other))


def test_prefixes_of_both_families_are_listed() -> None:
    found = list_prefixes([read(cidr6="fd00:1::/64")])
    assert [str(one) for one in found] == ["10.1.0.0/24", "fd00:1::/64"]


def test_an_address_is_a_host_of_one_of_the_subnets() -> None:
    check_inside(IPv4Address("10.1.0.7"), (read(),), "the web has")
    with pytest.raises(BadAddress, match=r"the web has 10.2.0.7, which is in no subnet"):
        check_inside(IPv4Address("10.2.0.7"), (read(),), "the web has")
    with pytest.raises(BadAddress, match=r"10.1.0.255 is not a host"):
        check_inside(IPv4Address("10.1.0.255"), (read(),), "the web has")
