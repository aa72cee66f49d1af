"""Routes as Kube-OVN's router gets them: which one decides for which packets."""

from __future__ import annotations

from typing import Any

from gpupool.kubernetes.networks.kube_ovn import Json
from tests.support.kube_ovn_networks import build_network
from tests.unit.kubernetes.networks.test_compiler import compile_all, specs_of

SUBNETS = [
    {"name": "main", "cidr": "10.1.0.0/24", "namespaces": ["a"]},
    {"name": "inner", "cidr": "10.1.1.0/24", "namespaces": ["b"]},
]
HOP = "10.1.0.9"
PEER = build_network("172.20.5.0/24", "vision")


def compile_vpc(*routes: Json, **parts: Any) -> Json:
    network = {"subnets": SUBNETS, "peers": ["speech"], "routes": list(routes), **parts}
    objects = compile_all(("vision", network, ("a", "b")), ("speech", PEER, ("c",)))
    return specs_of(objects, "Vpc")[0]


def hops_of(vpc: Json, table: str = "") -> dict[str, str]:
    routes = [one for one in vpc["staticRoutes"] if one["routeTable"] == table]
    assert len({one["cidr"] for one in routes}) == len(routes)
    return {one["cidr"]: one["nextHopIP"] for one in routes}


def test_a_subnet_without_routes_uses_the_main_table() -> None:
    vpc = compile_vpc({"prefix": "172.20.0.0/16", "via": HOP})
    assert {one["routeTable"] for one in vpc["staticRoutes"]} == {""}
    assert hops_of(vpc)["172.20.0.0/16"] == HOP


def test_the_table_of_a_subnet_has_the_routes_of_the_network_too() -> None:
    gateway = {"externalSubnet": "outside", "address": "10.1.0.254"}
    vpc = compile_vpc(
        {"prefix": "172.20.0.0/16", "via": HOP},
        {"prefix": "0.0.0.0/0", "via": "10.1.0.8", "subnet": "inner"},
        gateway=gateway,
    )
    main = hops_of(vpc)
    assert main["0.0.0.0/0"] == "10.1.0.254"
    assert hops_of(vpc, "gp-vision--inner") == {**main, "0.0.0.0/0": "10.1.0.8"}
    assert not hops_of(vpc, "gp-vision--main")


def test_a_route_of_ones_own_comes_before_that_of_a_peer() -> None:
    assert hops_of(compile_vpc({"prefix": "172.20.5.0/24", "via": HOP}))["172.20.5.0/24"] == HOP


def match_of(*routes: Json) -> str:
    (policy,) = compile_vpc(*routes)["policyRoutes"]
    assert policy["action"] == "drop"
    match: str = policy["match"]
    return match


def test_discarded_packets_leave_out_longer_prefixes() -> None:
    wide = {"prefix": "172.16.0.0/12", "discard": True}
    longer = {"prefix": "172.21.0.0/16", "via": HOP}
    assert match_of(wide, longer) == (
        "ip4.dst == 172.16.0.0/12 && ip4.dst != 172.20.5.0/24 && ip4.dst != 172.21.0.0/16"
    )
    assert match_of({"prefix": "0.0.0.0/0", "discard": True}) == (
        "ip4.dst == 0.0.0.0/0 && ip4.dst != 10.1.0.0/24 && ip4.dst != 10.1.1.0/24"
        " && ip4.dst != 172.20.5.0/24"
    )


def test_a_longer_route_of_one_subnet_is_left_out_for_its_packets_alone() -> None:
    wide = {"prefix": "172.30.0.0/16", "discard": True}
    longer = {"prefix": "172.30.1.0/24", "via": HOP, "subnet": "inner"}
    assert match_of(wide, longer) == (
        "ip4.dst == 172.30.0.0/16 && !(ip4.src == 10.1.1.0/24 && ip4.dst == 172.30.1.0/24)"
    )


def test_a_subnet_discards_its_own_packets_alone() -> None:
    wide = {"prefix": "172.30.0.0/16", "discard": True, "subnet": "inner"}
    other = {"prefix": "172.30.1.0/24", "via": HOP, "subnet": "main"}
    assert match_of(wide, other) == "ip4.src == 10.1.1.0/24 && ip4.dst == 172.30.0.0/16"


def test_a_network_without_routes_discards_nothing() -> None:
    assert compile_vpc()["policyRoutes"] == []
