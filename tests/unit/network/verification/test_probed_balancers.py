"""An agent learns which ports are behind a load balancer, and where they are asked."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.verification.probed_balancers import list_probed_balancers
from tests.unit.network.networks import make_network

NETWORK = make_network(1, 3)
BALANCER = LoadBalancer(7, "b-web", "web", "tcp", 80, 8000, ("job-1000", "job-1002"), True)


def test_jobs_behind_it_are_probed_on_the_port_on_which_they_serve() -> None:
    (found,) = list_probed_balancers(replace(NETWORK, balancers=(BALANCER,)))
    assert (found.network, found.name, found.address) == ("net1", "web", "100.126.0.8")
    assert (found.port, found.is_checked) == (80, True)
    assert [(one.key, one.address, one.port) for one in found.backends] == [
        ("n-0000001000", "10.0.0.10", 8000),
        ("n-0000001002", "10.0.0.12", 8000),
    ]


def test_behind_one_of_http_its_proxy_is_probed() -> None:
    proxy = ProxyPort("h-proxy", 9, "s-0000000001", IPv4Address("10.0.0.200"), (80, 443))
    balancer = replace(BALANCER, proxy=proxy, is_checked=False)
    (found,) = list_probed_balancers(replace(NETWORK, balancers=(balancer,)))
    assert [(one.key, one.address, one.port) for one in found.backends] == [
        ("h-proxy", "10.0.0.200", 80)
    ]
