"""Static routes as rows: those they replace are gone, and nothing foreign leaves the network."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

from gpupool.network.model import Network, Port, make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.routing.model import StaticRoute
from gpupool.network.routing.rows import subtract_prefixes
from gpupool.network.rows import NorthboundRow
from tests.unit.network.routing.test_route_table import HOP, NETWORK, ONE, PEER, TWO, make_route

ROUTER = Port(7, "n-7", "s-1", HOP, "router")


def compile_rows(network: Network) -> dict[str, NorthboundRow]:
    return {row.key: row for row in compile_network(network)}


def list_policies(network: Network) -> dict[str, tuple[object, ...]]:
    """List those of routes: each gateway has one of its own."""
    rows = compile_rows(network)
    return {
        key: (row.columns["priority"], row.columns["match"], row.columns["action"])
        for key, row in rows.items()
        if row.table == "Logical_Router_Policy" and not key.startswith("uplink-policy")
    }


def test_routes_of_the_network_are_static_routes_of_its_router() -> None:
    network = replace(
        NETWORK, routes=(make_route("172.16.0.0/12"), make_route("10.8.0.0/16", None))
    )
    rows = compile_rows(network)
    hops = {
        row.columns["ip_prefix"]: row.columns["nexthop"]
        for row in rows.values()
        if row.table == "Logical_Router_Static_Route"
    }
    assert hops["172.16.0.0/12"] == "10.0.0.9"
    assert hops["10.8.0.0/16"] == "discard"
    wanted = {key for key, row in rows.items() if row.table == "Logical_Router_Static_Route"}
    assert rows["router/v-1"].references["static_routes"] == wanted
    assert len(wanted) == 4


def test_a_route_takes_the_place_of_one_with_the_same_prefix() -> None:
    rows = compile_rows(replace(NETWORK, routes=(make_route("0.0.0.0/0"),)))
    assert "uplink-route/v-1" not in rows
    assert "uplink-route/v-1" not in rows["router/v-1"].references["static_routes"]
    assert "uplink-route/v-1" in compile_rows(NETWORK)


def test_routes_of_a_subnet_are_policies_below_longer_prefixes() -> None:
    network = replace(
        NETWORK,
        gateway=None,
        peerings=(),
        routes=(make_route("10.0.0.0/8", subnet="s-2"), make_route("10.5.0.0/16", None, "s-2")),
    )
    inside = 'inport == "gpupool-router-s-2" && '
    assert list_policies(network) == {
        "route-pass/s-2/10.0.0.0/24": (1048, f"{inside}ip4.dst == 10.0.0.0/24", "allow"),
        "route-pass/s-2/10.0.1.0/24": (1048, f"{inside}ip4.dst == 10.0.1.0/24", "allow"),
        "route/t-10.0.0.0/8-s-2": (1017, f"{inside}ip4.dst == 10.0.0.0/8", "reroute"),
        "route/t-10.5.0.0/16-s-2": (1033, f"{inside}ip4.dst == 10.5.0.0/16", "drop"),
        "route-hop/s-2/10.0.0.9": (2000, f"{inside}ip4.src == 10.0.0.9", "allow"),
    }
    rows = compile_rows(network)
    assert rows["route/t-10.0.0.0/8-s-2"].columns["nexthops"] == ("10.0.0.9",)
    assert rows["router/v-1"].references["policies"] == set(list_policies(network))


def test_a_next_hop_alone_may_have_the_addresses_that_it_forwards() -> None:
    forwarding = replace(make_route("172.16.0.0/12"), forwards=(IPv4Network("10.0.1.0/24"),))
    other = replace(ROUTER, id=8, key="n-8", address=HOP + 1)
    rows = compile_rows(replace(NETWORK, ports=(ROUTER, other), routes=(forwarding,)))
    assert rows["port/n-7"].columns["port_security"] == (
        f"{ROUTER.mac} 10.0.0.9 10.0.1.0/24 172.16.0.0/12",
    )
    assert rows["port/n-7"].columns["addresses"] == (f"{ROUTER.mac} 10.0.0.9",)
    assert rows["port/n-8"].columns["port_security"] == (f"{other.mac} 10.0.0.10",)
    discarding = replace(NETWORK, ports=(ROUTER,), routes=(make_route("172.16.0.0/12", None),))
    assert compile_rows(discarding)["port/n-7"].columns["port_security"] == (
        f"{ROUTER.mac} 10.0.0.9",
    )


def test_packets_with_foreign_sources_do_not_leave_the_network() -> None:
    network = replace(NETWORK, routes=(make_route("10.0.0.0/22"),))
    (key, policy) = next(iter(list_policies(network).items()))
    assert key == "route-bound/v-1"
    exits = f'"gpupool-{PEER.key}-requester", "gpupool-uplink-v-1"'
    # Of 10.0.0.0/22 the subnets have the first half.
    assert policy == (3000, f"outport == {{{exits}}} && ip4.src == {{10.0.2.0/23}}", "drop")
    assert list_policies(replace(network, gateway=None, peerings=())) == {}
    assert list_policies(replace(NETWORK, routes=(make_route("10.0.0.0/22", None),))) == {}


def test_prefixes_are_subtracted_without_overlap() -> None:
    left = subtract_prefixes(
        [IPv4Network("10.0.0.0/8"), IPv4Network("10.0.0.0/24"), IPv4Network("0.0.0.0/0")],
        [IPv4Network("10.0.0.0/24")],
    )
    assert len(left) == 24
    assert sum(one.num_addresses for one in left) == 2**32 - 256
    assert subtract_prefixes([IPv4Network("10.0.0.0/25")], [IPv4Network("10.0.0.0/24")]) == []


def test_routes_of_ipv6_are_rows_beside_those_of_ipv4() -> None:
    cidr6 = IPv6Network("fd12::/64")
    hop = cidr6[9]
    network = replace(
        NETWORK,
        subnets=(replace(ONE, cidr6=cidr6), TWO),
        ports=(replace(ROUTER, address6=hop),),
        gateway=make_gateway(1, IPv4Network("198.18.0.0/16"), has_ipv6=True),
        routes=(
            make_route("172.16.0.0/12"),
            StaticRoute("t-1", IPv6Network("fd12::/62"), hop),
            StaticRoute("t-2", IPv6Network("::/0"), None),
            StaticRoute("t-3", IPv6Network("fd20::/48"), hop, "s-1", (IPv6Network("fd30::/64"),)),
        ),
    )
    rows = compile_rows(network)
    assert rows["route/t-1"].columns == {"ip_prefix": "fd12::/62", "nexthop": str(hop)}
    assert rows["route/t-2"].columns == {"ip_prefix": "::/0", "nexthop": "discard"}
    # It takes the place of the gateway's.
    assert "uplink-route6/v-1" not in rows
    assert "uplink-route/v-1" in rows
    inside = 'inport == "gpupool-router-s-1" && '
    policies = list_policies(network)
    assert policies["route/t-3"] == (1097, f"{inside}ip6.dst == fd20::/48", "reroute")
    assert policies[f"route-hop/s-1/{hop}"] == (2000, f"{inside}ip6.src == {hop}", "allow")
    assert rows["port/n-7"].columns["port_security"] == (
        f"{ROUTER.mac} 10.0.0.9 {hop} 172.16.0.0/12 fd12::/62 fd20::/48 fd30::/64",
    )
    exits = f'"gpupool-{PEER.key}-requester", "gpupool-uplink-v-1"'
    # Of fd12::/62 the network has the first quarter.
    assert policies["route-bound6/v-1"] == (
        3000,
        (
            f"outport == {{{exits}}} && ip6.src == "
            "{fd12:0:0:1::/64, fd12:0:0:2::/63, fd20::/48, fd30::/64}"
        ),
        "drop",
    )
