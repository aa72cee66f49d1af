"""Whether a job reaches a target over IPv6 is decided as the compiled rows decide."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.model import Network, PeeringEnd, make_gateway
from gpupool.network.reachability import Reach, Traffic, decide_reach
from gpupool.network.security.model import SecurityGroup, SecurityRule
from tests.unit.network.networks import make_network

CIDR6 = IPv6Network("fd12:3456:789a::/64")
BALANCER = LoadBalancer(1, "b-1", "api", "tcp", 443, 80, ("job-1001",), False)
PEER = PeeringEnd(1, "p-1", True, (IPv4Network("10.9.0.0/24"),), (IPv6Network("fd99:1:2:3::/64"),))
WEB = SecurityGroup(
    "g-web",
    "web",
    (
        SecurityRule("r-1", "tcp", 80, 90, IPv4Network("10.0.0.0/24")),
        SecurityRule("r-2", "tcp", 100, 100, CIDR6),
        SecurityRule("r-3", "icmp"),
    ),
)


@pytest.fixture
def network() -> Network:
    """Job 1000 in no group, 1001 in web, and 1002 of a subnet without IPv6."""
    made = make_network(1, 3)
    (subnet,) = made.subnets
    old = replace(subnet, id=2, key="s-old", name="old", cidr=IPv4Network("10.7.0.0/24"))
    first, second, third = made.ports
    ports = (
        replace(first, address6=CIDR6[10]),
        replace(second, address6=CIDR6[11], groups=("g-web",)),
        replace(third, subnet="s-old", address=old.cidr[12]),
    )
    return replace(
        made,
        subnets=(replace(subnet, cidr6=CIDR6), old),
        ports=ports,
        groups=(WEB,),
        balancers=(BALANCER,),
        peerings=(PEER,),
        gateway=make_gateway(1, IPv4Network("198.18.0.0/16")),
    )


def decide(
    network: Network, source: int, target: str, port: int | None = None, protocol: str = "tcp"
) -> Reach:
    return decide_reach(network, network.ports[source], target, Traffic(protocol, port))


@pytest.mark.parametrize(
    ("source", "target", "port", "protocol", "is_reached", "decides"),
    [
        (1, "fd12:3456:789a::a", None, "tcp", True, "network net1"),
        (1, "FD12:3456:789A:0::A", None, "tcp", True, "network net1"),
        # A rule of the one family takes nothing of the other.
        (0, "fd12:3456:789a::b", 85, "tcp", False, "security group web"),
        (0, "fd12:3456:789a::b", 100, "tcp", True, "security group web"),
        (0, "10.0.0.11", 100, "tcp", False, "security group web"),
        (0, "10.0.0.11", 85, "tcp", True, "security group web"),
        # A name stands for the IPv4 address.
        (0, "job-1001", 85, "tcp", True, "security group web"),
        (0, "fd12:3456:789a::b", None, "icmp", True, "security group web"),
        (0, "fd12:3456:789a::ff", 80, "tcp", False, "subnet default"),
        (0, "fd99:1:2:3::7", 80, "tcp", None, "peering p-1"),
        # The gateway is for IPv4 alone.
        (0, "2001:db8::1", 443, "tcp", False, "gateway of net1"),
        (0, "192.0.2.1", 443, "tcp", None, "gateway of net1"),
        (2, "fd12:3456:789a::a", 80, "tcp", False, "subnet old"),
        (2, "10.0.0.10", 80, "tcp", True, "network net1"),
        (0, str(BALANCER.address6), 443, "tcp", False, "security group web"),
    ],
)
def test_the_object_that_decides_about_ipv6_is_named(
    network: Network,
    source: int,
    target: str,
    port: int | None,
    protocol: str,
    is_reached: bool | None,
    decides: str,
) -> None:
    reach = decide(network, source, target, port, protocol)
    assert (reach.is_reached, reach.object) == (is_reached, decides), reach


@pytest.mark.parametrize(
    ("source", "target", "is_reached", "decides"),
    [
        (0, "job-1001", False, "security group web"),
        # Its subnet has none, whichever job asks.
        (0, "job-1002", False, "subnet old"),
        (2, "job-1000", False, "subnet old"),
        (0, "api", False, "security group web"),
        (0, "web", False, "load balancer web"),
        (0, "10.0.0.11", True, "security group web"),
    ],
)
def test_a_name_stands_for_its_ipv6_address_where_that_is_asked_for(
    network: Network, source: int, target: str, is_reached: bool, decides: str
) -> None:
    proxy = ProxyPort("h-1", 9, "s-old", IPv4Address("10.7.0.99"), (443,))
    web = replace(BALANCER, id=2, key="b-2", name="web", proxy=proxy)
    both = replace(network, balancers=(BALANCER, web))
    traffic = Traffic("tcp", 443 if target in ("api", "web") else 85, is_ipv6=True)
    reach = decide_reach(both, both.ports[source], target, traffic)
    assert (reach.is_reached, reach.object) == (is_reached, decides), reach


def test_a_gateway_carries_ipv6_or_says_what_changes_it(network: Network) -> None:
    refused = decide(network, 0, "2001:db8::1")
    assert "carry IPv4 alone" in refused.reason
    assert "--gateway-ipv6 on" in refused.hint
    gateway = make_gateway(1, IPv4Network("198.18.0.0/16"), has_ipv6=True)
    passed = decide(replace(network, gateway=gateway), 0, "2001:db8::1")
    assert passed.is_reached is None
    assert "as fd67:7075:706f:c612::3, translated" in passed.reason
    without = decide(replace(network, gateway=None), 0, "2001:db8::1")
    assert without.hint == "gpupool network gateway-create net1"


def test_a_refusal_names_the_ipv6_address_and_the_rule_that_would_open_it(
    network: Network,
) -> None:
    reach = decide(network, 0, "fd12:3456:789a::b", 22)
    assert reach.reason == (
        "job-1000 is no member, and no rule takes tcp:22 from fd12:3456:789a::a; rules take tcp:100"
    )
    assert reach.hint == (
        "gpupool network group-allow net1 web tcp:22 --from fd12:3456:789a::a/128"
    )


def test_a_balancer_reaches_jobs_with_ipv6_alone(network: Network) -> None:
    target = str(BALANCER.address6)
    old = replace(BALANCER, backends=("job-1002",))
    reach = decide(replace(network, balancers=(old,)), 0, target, 443)
    assert reach.is_reached is False
    assert "runs in the network and has an IPv6 address" in reach.reason
    opened = replace(network, groups=(replace(WEB, rules=(SecurityRule("r", "any"),)),))
    assert decide(opened, 0, target, 443).is_reached is True
