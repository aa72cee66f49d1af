"""Forwards become load balancers of the router on the gateway's address."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network

import pytest

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.forwarding.model import PortForward
from gpupool.network.model import make_gateway
from gpupool.network.northbound import compile_network
from tests.unit.network.networks import make_network

GATEWAY = make_gateway(1, IPv4Network("198.18.0.0/16"))
BALANCER = LoadBalancer(1, "b-1", "api", "tcp", 80, 8080, ("job-1000", "job-1001"), False)


@pytest.mark.parametrize(
    ("target", "vips"),
    [
        ("job-1001", "10.0.0.11:8000"),
        ("api", "10.0.0.10:8080,10.0.0.11:8080"),
        ("none", ""),
    ],
)
def test_a_forward_leads_to_a_job_or_to_all_behind_a_balancer(target: str, vips: str) -> None:
    forward = PortForward("f-1", "tcp", 30000, target, 8000)
    network = replace(
        make_network(1, 2), gateway=GATEWAY, forwards=(forward,), balancers=(BALANCER,)
    )
    rows = {row.key: row for row in compile_network(network)}
    assert rows["forward/f-1"].columns["vips"] == {"198.18.0.3:30000": vips}
    assert rows["router/v-0000000001"].references["load_balancer"] == {"forward/f-1"}


@pytest.mark.parametrize(
    ("target", "vips"),
    [
        # The second job has IPv4 alone.
        ("job-1000", "[fd12::a]:8000"),
        ("job-1001", ""),
        ("api", "[fd12::a]:8080"),
        ("web", "[fd12::ff]:80"),
    ],
)
def test_a_forward_leads_to_what_has_ipv6_where_the_gateway_carries_it(
    target: str, vips: str
) -> None:
    plain = make_network(1, 2)
    (subnet,) = plain.subnets
    first, second = plain.ports
    cidr6 = IPv6Network("fd12::/64")
    proxy = ProxyPort("h-1", 9, subnet.key, subnet.cidr[99], (80,), cidr6[255])
    web = replace(BALANCER, id=2, key="b-2", name="web", proxy=proxy)
    network = replace(
        plain,
        subnets=(replace(subnet, cidr6=cidr6),),
        ports=(replace(first, address6=cidr6[10]), second),
        gateway=make_gateway(1, IPv4Network("198.18.0.0/16"), has_ipv6=True),
        forwards=(PortForward("f-1", "tcp", 30000, target, 8000),),
        balancers=(BALANCER, web),
    )
    rows = {row.key: row for row in compile_network(network)}
    found = rows["forward/f-1"].columns["vips"]
    assert isinstance(found, dict)
    assert found["[fd67:7075:706f:c612::3]:30000"] == vips
    assert found.keys() == {"198.18.0.3:30000", "[fd67:7075:706f:c612::3]:30000"}


def test_without_a_gateway_there_is_no_forward() -> None:
    network = replace(make_network(1, 2), forwards=(PortForward("f-1", "tcp", 30000, "x", 80),))
    rows = {row.key: row for row in compile_network(network)}
    assert "forward/f-1" not in rows
    assert rows["router/v-0000000001"].references["load_balancer"] == frozenset()
