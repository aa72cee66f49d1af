"""Whether a job reaches a target is decided as the compiled rows decide, and said with its object."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_address

import pytest

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.floating.model import FloatingIp
from gpupool.network.model import Network, PeeringEnd, make_gateway
from gpupool.network.naming.model import DnsRecord
from gpupool.network.reachability import Reach, Traffic, decide_reach
from gpupool.network.security.model import SecurityGroup, SecurityRule
from tests.unit.network.networks import make_network

WEB = SecurityGroup(
    "g-web",
    "web",
    (
        SecurityRule("r-1", "tcp", 80, 90, IPv4Network("10.0.0.0/24")),
        SecurityRule("r-2", "any", group="g-ops"),
        SecurityRule("r-3", "icmp"),
    ),
)
OPS = SecurityGroup("g-ops", "ops")
BALANCER = LoadBalancer(1, "b-1", "api", "tcp", 443, 80, ("job-1001",), False)


@pytest.fixture
def network() -> Network:
    """Jobs 1000 in no group, 1001 and 1002 in web, 1003 in ops."""
    made = make_network(1, 4)
    groups = ((), ("g-web",), ("g-web",), ("g-ops",))
    ports = [replace(port, groups=inside) for port, inside in zip(made.ports, groups, strict=True)]
    return replace(made, ports=tuple(ports), groups=(WEB, OPS), balancers=(BALANCER,))


def decide(
    network: Network, source: int, target: str, port: int | None = None, protocol: str = "tcp"
) -> Reach:
    return decide_reach(network, network.ports[source], target, Traffic(protocol, port))


@pytest.mark.parametrize(
    ("name", "is_reached", "decides"),
    [
        ("store", True, "network net1"),
        ("store.net1.gpupool.internal", True, "network net1"),
        ("guarded", False, "security group web"),
        ("away", False, "network net1"),
        # Of IPv6 alone, and the question is about IPv4.
        ("six", False, "DNS"),
    ],
)
def test_a_record_stands_for_its_address(
    network: Network, name: str, is_reached: bool, decides: str
) -> None:
    records = {"store": "10.0.0.13", "guarded": "10.0.0.11", "away": "192.0.2.1", "six": "fd12::1"}
    made = tuple(DnsRecord(one, ip_address(text)) for one, text in records.items())
    open_store = replace(network.ports[3], groups=())
    ports = (*network.ports[:3], open_store)
    reach = decide(replace(network, records=made, ports=ports), 0, name, 22)
    assert (reach.is_reached, reach.object) == (is_reached, decides)


@pytest.mark.parametrize(
    ("source", "target", "port", "protocol", "is_reached", "decides"),
    [
        (1, "job-1000", None, "tcp", True, "network net1"),
        (1, "job-1000.net1.gpupool.internal", 22, "tcp", True, "network net1"),
        (2, "job-1001", 22, "tcp", True, "security group web"),
        (0, "10.0.0.11", 85, "tcp", True, "security group web"),
        (0, "job-1001", 91, "tcp", False, "security group web"),
        (0, "job-1001", 85, "udp", False, "security group web"),
        (0, "job-1001", None, "tcp", False, "security group web"),
        (0, "job-1001", None, "icmp", True, "security group web"),
        (3, "job-1001", 22, "udp", True, "security group web"),
        (0, "job-1003", 22, "tcp", False, "security group ops"),
        (0, "api", 443, "tcp", True, "load balancer api"),
        (0, "api", 80, "tcp", False, "load balancer api"),
        (0, "100.126.0.2", None, "tcp", True, "load balancer api"),
        (0, "nothing", 80, "tcp", False, "DNS"),
        (0, "10.0.0.200", 80, "tcp", False, "subnet default"),
        (0, "192.0.2.1", 80, "tcp", False, "network net1"),
    ],
)
def test_the_object_that_decides_is_named(
    network: Network,
    source: int,
    target: str,
    port: int | None,
    protocol: str,
    is_reached: bool,
    decides: str,
) -> None:
    reach = decide(network, source, target, port, protocol)
    assert (reach.is_reached, reach.object) == (is_reached, decides), reach


def test_a_refusal_says_what_is_open_and_how_to_open_more(network: Network) -> None:
    reach = decide(network, 0, "job-1001", 22)
    assert reach.reason == (
        "job-1000 is no member, and no rule takes tcp:22 from 10.0.0.10; rules take tcp:80-90"
    )
    assert reach.hint == "gpupool network group-allow net1 web tcp:22 --from 10.0.0.10/32"


def test_a_balancer_whose_jobs_refuse_names_their_group(network: Network) -> None:
    closed = replace(network, groups=(replace(WEB, rules=()), OPS))
    reach = decide(closed, 0, "api", 443)
    assert (reach.is_reached, reach.object) == (False, "security group web")
    assert "0 of 1 jobs behind load balancer api" in reach.reason
    empty = replace(network, balancers=(replace(BALANCER, backends=("none",)),))
    assert decide(empty, 0, "api").reason.startswith("no job of none runs")


def test_what_others_decide_stays_unknown(network: Network) -> None:
    peered = replace(network, peerings=(PeeringEnd(1, "p-1", True, (IPv4Network("10.9.0.0/24"),)),))
    assert decide(peered, 0, "10.9.0.7").is_reached is None
    assert decide(peered, 0, "10.9.1.7").is_reached is False
    outside = replace(network, gateway=make_gateway(1, IPv4Network("198.18.0.0/24")))
    reach = decide(outside, 0, "192.0.2.1")
    assert (reach.is_reached, reach.object) == (None, "gateway of net1")


def test_packets_of_a_job_with_a_floating_ip_leave_with_it(network: Network) -> None:
    gateway = make_gateway(1, IPv4Network("198.18.0.0/16"))
    address = IPv4Address("203.0.113.40")
    floating = FloatingIp("i-1", address, IPv4Address("198.18.128.1"), "job-1001")
    network = replace(network, gateway=gateway, floating_ips=(floating,))
    found = decide(network, 1, "192.0.2.1")
    assert (found.is_reached, found.object) == (None, "floating IP 203.0.113.40")
    assert "as 203.0.113.40" in found.reason
    assert decide(network, 2, "192.0.2.1").object == "gateway of net1"
    # Other jobs do not go over the machine: the hint names the address inside.
    inside = decide(network, 2, str(address))
    assert (inside.is_reached, inside.hint) == (False, "gpupool network why job-1002 10.0.0.11")
