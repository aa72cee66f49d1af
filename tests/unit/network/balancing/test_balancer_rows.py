"""Load balancers become rows with the addresses of the jobs that run, and their probes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

from gpupool.network.balancing.model import BALANCER_ADDRESSES, RESOLVER_ADDRESSES, LoadBalancer
from gpupool.network.balancing.rows import BalancedPort, compile_balancer
from gpupool.network.northbound import compile_network
from gpupool.network.resolver_rows import read_resolver
from tests.unit.network.networks import make_network

WEB = LoadBalancer(7, "b-web", "web", "tcp", 80, 8000, ("web",), True)
PROBE = IPv4Address("10.0.0.254")


def make_ports(*names: str) -> list[BalancedPort]:
    return [
        BalancedPort(name, f"lsp-{n}", IPv4Address(f"10.0.0.{n}"), PROBE)
        for n, name in enumerate(names, 2)
    ]


def test_a_job_and_each_member_of_an_array_of_that_name_are_backends() -> None:
    ports = make_ports("web", "web-0.web", "web-1.web", "webb", "other", "x.webb")
    balancer, check = compile_balancer(WEB, ports)
    assert balancer.columns["vips"] == {
        "100.126.0.8:80": "10.0.0.2:8000,10.0.0.3:8000,10.0.0.4:8000"
    }
    assert balancer.columns["ip_port_mappings"] == {
        f"10.0.0.{n}": f"lsp-{n}:10.0.0.254" for n in (2, 3, 4)
    }
    assert balancer.references == {"health_check": {check.key}}
    assert check.columns["vip"] == "100.126.0.8:80"


def test_without_checks_nothing_is_probed_and_without_backends_clients_are_refused() -> None:
    (balancer,) = compile_balancer(replace(WEB, is_checked=False), make_ports("web"))
    assert balancer.columns["ip_port_mappings"] == {}
    assert balancer.references == {"health_check": frozenset()}
    (balancer, _) = compile_balancer(WEB, make_ports("other"))
    assert balancer.columns["vips"] == {"100.126.0.8:80": ""}
    assert balancer.columns["options"] == {"reject": "true"}


def test_every_switch_of_a_network_balances_and_the_resolver_has_its_name() -> None:
    network = replace(make_network(1, 1), balancers=(WEB,))
    rows = {row.key: row for row in compile_network(network)}
    assert rows["switch/s-0000000001"].references["load_balancer"] == {"lb/b-web"}
    options = rows["resolver-port/v-0000000001"].columns["options"]
    assert isinstance(options, dict)
    config = read_resolver("port", options)
    assert config is not None
    assert config.addresses["web"] == (WEB.address,) == (IPv4Address("100.126.0.8"),)


def test_no_load_balancer_has_an_address_of_the_resolver() -> None:
    for number in (0, 65_525, 65_526, 65_527, 65_535, 200_000):
        address = replace(WEB, id=number).address
        assert address in BALANCER_ADDRESSES
        assert address not in RESOLVER_ADDRESSES
        assert address != BALANCER_ADDRESSES[0]


def test_groups_take_probes_of_their_members() -> None:
    from gpupool.network.security.model import SecurityGroup

    network = make_network(1, 1)
    subnet = replace(network.subnets[0], probe=PROBE)
    network = replace(network, subnets=(subnet,), groups=(SecurityGroup("g-1", "g"),))
    (row,) = [row for row in compile_network(network) if row.key == "acl/g-1/router"]
    assert "{10.0.0.1, 10.0.0.254}" in str(row.columns["match"])
