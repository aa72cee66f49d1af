"""Which routes are read, and why others are not."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from gpupool.base.errors import BadAddress, BadOption, GpupoolError
from gpupool.kubernetes.resources.network_parts.network_routes import NetworkRoute, read_routes
from gpupool.kubernetes.resources.network_parts.subnets import read_subnet

SUBNETS = (
    read_subnet({"name": "main", "cidr": "10.1.0.0/24"}),
    read_subnet({"name": "inner", "cidr": "10.1.1.0/24"}),
)
HOP = {"via": "10.1.0.9"}


def read(*routes: dict[str, Any], has_gateway: bool = False) -> tuple[NetworkRoute, ...]:
    return read_routes({"routes": list(routes)}, SUBNETS, has_gateway)


def test_a_route_leads_to_a_next_hop_or_discards() -> None:
    found = read(
        {"prefix": "172.20.0.0/16", **HOP},
        {"prefix": "172.20.99.0/24", "discard": True, "subnet": "inner"},
    )
    assert found == (
        NetworkRoute(IPv4Network("172.20.0.0/16"), IPv4Address("10.1.0.9")),
        NetworkRoute(IPv4Network("172.20.99.0/24"), None, "inner"),
    )


def test_a_prefix_may_have_a_route_for_the_network_and_one_for_a_subnet() -> None:
    everywhere = {"prefix": "0.0.0.0/0", **HOP}
    assert len(read(everywhere, {**everywhere, "subnet": "inner"})) == 2


FAULTS: dict[str, tuple[list[dict[str, Any]], type[GpupoolError], str]] = {
    "inside": ([{"prefix": "10.1.0.0/25", **HOP}], BadAddress, "inside subnet main"),
    "the subnet itself": ([{"prefix": "10.1.1.0/24", **HOP}], BadAddress, "inside subnet inner"),
    "neither": ([{"prefix": "172.20.0.0/16"}], BadOption, "needs a next hop, or to discard"),
    "both": ([{"prefix": "172.20.0.0/16", **HOP, "discard": True}], BadOption, "and not both"),
    "hop outside": (
        [{"prefix": "172.20.0.0/16", "via": "10.9.0.1"}],
        BadAddress,
        "goes through 10.9.0.1, which is in no subnet",
    ),
    "the router": (
        [{"prefix": "172.20.0.0/16", "via": "10.1.1.1"}],
        BadAddress,
        "10.1.1.1, the router itself",
    ),
    "unknown subnet": (
        [{"prefix": "172.20.0.0/16", **HOP, "subnet": "x"}],
        BadOption,
        "names the subnet 'x'",
    ),
    "twice": (
        [{"prefix": "172.20.0.0/16", **HOP}, {"prefix": "172.20.0.0/16", "discard": True}],
        BadOption,
        "two routes are for 172.20.0.0/16",
    ),
    "discards beside": (
        [
            {"prefix": "172.20.0.0/16", "discard": True},
            {"prefix": "172.20.0.0/16", **HOP, "subnet": "inner"},
        ],
        BadOption,
        "172.20.0.0/16 of subnet inner and for the whole network one discards",
    ),
    "IPv6": ([{"prefix": "fd00::/8", **HOP}], BadAddress, "is not an IPv4 prefix"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_route_is_refused_with_what_is_wrong(fault: str) -> None:
    routes, kind, words = FAULTS[fault]
    with pytest.raises(kind, match=words):
        read(*routes)


def test_beside_a_gateway_the_default_route_is_a_subnets_alone() -> None:
    everywhere = {"prefix": "0.0.0.0/0", **HOP}
    with pytest.raises(BadOption, match="the gateway both lead out"):
        read(everywhere, has_gateway=True)
    assert read(everywhere)
    assert read({**everywhere, "subnet": "inner"}, has_gateway=True)
