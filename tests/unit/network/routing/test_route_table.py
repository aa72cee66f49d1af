"""Which route decides about a packet."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from gpupool.network.model import Network, PeeringEnd, Subnet, make_gateway
from gpupool.network.routing.model import StaticRoute
from gpupool.network.routing.route_table import build_table, find_route

ONE = Subnet(1, "s-1", "one", IPv4Network("10.0.0.0/24"), IPv4Address("10.0.0.1"))
TWO = Subnet(2, "s-2", "two", IPv4Network("10.0.1.0/24"), IPv4Address("10.0.1.1"))
PEER = PeeringEnd(1, "p-1", True, (IPv4Network("10.9.0.0/16"),))
HOP = IPv4Address("10.0.0.9")
NETWORK = Network(
    "v-1",
    "lab",
    "lab.gpupool.internal",
    1442,
    (ONE, TWO),
    peerings=(PEER,),
    id=1,
    gateway=make_gateway(1, IPv4Network("198.18.0.0/16")),
)


def make_route(
    prefix: str, via: IPv4Address | None = HOP, subnet: str | None = None
) -> StaticRoute:
    return StaticRoute(f"t-{prefix}-{subnet}", IPv4Network(prefix), via, subnet)


def decide(network: Network, subnet: str, source: str, target: str) -> str:
    table = build_table(network)
    route = find_route(table, subnet, IPv4Address(source), IPv4Address(target))
    return "none" if route is None else f"{route.kind} {route.prefix}"


def test_the_longest_prefix_decides() -> None:
    network = replace(NETWORK, routes=(make_route("10.0.0.0/8"), make_route("172.16.0.0/12", None)))
    for target, expected in (
        ("10.0.1.7", "connected 10.0.1.0/24"),
        ("10.9.1.1", "peering 10.9.0.0/16"),
        ("10.200.0.1", "static 10.0.0.0/8"),
        ("172.20.1.1", "static 172.16.0.0/12"),
        ("8.8.8.8", "gateway 0.0.0.0/0"),
    ):
        assert decide(network, "s-1", "10.0.0.5", target) == expected
    assert decide(replace(NETWORK, gateway=None), "s-1", "10.0.0.5", "8.8.8.8") == "none"


def test_a_route_of_a_subnet_decides_for_its_packets_alone() -> None:
    network = replace(NETWORK, routes=(make_route("0.0.0.0/0", subnet="s-2"),))
    assert decide(network, "s-1", "10.0.0.5", "8.8.8.8") == "gateway 0.0.0.0/0"
    assert decide(network, "s-2", "10.0.1.5", "8.8.8.8") == "static 0.0.0.0/0"
    # Longer prefixes of the whole network stay before it.
    assert decide(network, "s-2", "10.0.1.5", "10.9.1.1") == "peering 10.9.0.0/16"
    assert decide(network, "s-2", "10.0.1.5", "10.0.0.9") == "connected 10.0.0.0/24"


def test_a_next_hop_in_the_subnet_itself_is_not_led_back_to_itself() -> None:
    network = replace(NETWORK, routes=(make_route("0.0.0.0/0", subnet="s-1"),))
    assert decide(network, "s-1", "10.0.0.5", "8.8.8.8") == "static 0.0.0.0/0"
    assert decide(network, "s-1", str(HOP), "8.8.8.8") == "gateway 0.0.0.0/0"


def test_of_equal_prefixes_the_static_route_is_active_and_the_other_is_not() -> None:
    network = replace(NETWORK, routes=(make_route("0.0.0.0/0"), make_route("10.9.0.0/16", None)))
    states = {(one.kind, str(one.prefix)): one.is_active for one in build_table(network)}
    assert states == {
        ("static", "0.0.0.0/0"): True,
        ("gateway", "0.0.0.0/0"): False,
        ("connected", "10.0.0.0/24"): True,
        ("connected", "10.0.1.0/24"): True,
        ("static", "10.9.0.0/16"): True,
        ("peering", "10.9.0.0/16"): False,
    }
    assert decide(network, "s-1", "10.0.0.5", "8.8.8.8") == "static 0.0.0.0/0"


def test_routes_of_ipv6_decide_beside_those_of_ipv4() -> None:
    cidr6 = IPv6Network("fd12::/64")
    hop = cidr6[9]
    route = StaticRoute("t-6", IPv6Network("2001:db8::/32"), hop)
    scoped = StaticRoute("t-7", IPv6Network("::/0"), None, "s-2")
    network = replace(
        NETWORK,
        subnets=(replace(ONE, cidr6=cidr6), replace(TWO, cidr6=IPv6Network("fd12:0:0:1::/64"))),
        peerings=(replace(PEER, prefixes6=(IPv6Network("fd99::/64"),)),),
        gateway=make_gateway(1, IPv4Network("198.18.0.0/16"), has_ipv6=True),
        routes=(make_route("172.16.0.0/12"), route, scoped),
    )
    table = build_table(network)

    def decide6(subnet: str, source: IPv6Address, target: str) -> tuple[str, str, str] | None:
        found = find_route(table, subnet, source, IPv6Address(target))
        return None if found is None else (found.kind, str(found.prefix), str(found.via))

    one = cidr6[5]
    gateway = ("gateway", "::/0", "fd67:7075:706f:c612::1")
    assert decide6("s-1", one, "fd12::7") == ("connected", "fd12::/64", "None")
    assert decide6("s-1", one, "2001:db8::7") == ("static", "2001:db8::/32", str(hop))
    assert decide6("s-1", one, "2a00::1") == gateway
    assert decide6("s-2", one, "2a00::1") == ("static", "::/0", "None")
    assert decide6("s-2", one, "fd99::1") == ("peering", "fd99::/64", str(PEER.next_hop6))
    # IPv4 first, then by prefix.
    assert [route.prefix.version for route in table] == [4] * 5 + [6] * 6
    assert decide(network, "s-1", "10.0.0.5", "172.16.0.1") == "static 172.16.0.0/12"
