"""A line becomes a VLAN, a router port, and routes to what its peer may announce."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

from gpupool.network.lines.model import Line
from gpupool.network.model import Network, make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.reachability import Traffic, decide_reach
from gpupool.network.rows import NorthboundRow
from tests.support.dedicated_lines import KEY, make_line
from tests.unit.network.networks import make_network


def compile_rows(line: Line, network: Network | None = None) -> dict[str, NorthboundRow]:
    network = network or make_network(1, 1)
    return {row.key: row for row in compile_network(replace(network, lines=(line,)))}


def learn(line: Line, *prefixes: str) -> Line:
    return replace(line, learned=tuple(map(IPv4Network, prefixes)))


def test_a_line_is_a_tagged_cable_of_the_network_alone() -> None:
    rows = compile_rows(make_line())
    cable = rows[f"line-cable/{KEY}"]
    assert cable.columns["tag"] == (200,)
    assert cable.columns["options"] == {"network_name": "gpupool-lines"}
    assert rows[f"line-router-port/{KEY}"].columns["networks"] == ("192.168.200.1/29",)
    speaker = rows[f"line-speaker/{KEY}"].columns
    assert speaker["name"] == f"gpupool-{KEY}"
    assert str(speaker["addresses"]).endswith(" 192.168.200.2',)")
    assert speaker["addresses"] == speaker["port_security"]


def test_every_reference_of_a_network_with_line_and_gateway_names_a_row() -> None:
    gateway = make_gateway(1, IPv4Network("198.18.0.0/16"))
    network = replace(make_network(1, 2), gateway=gateway)
    rows = compile_rows(learn(make_line(), "172.20.0.0/16"), network)
    for row in rows.values():
        for references in row.references.values():
            assert references <= rows.keys()
    router = rows["router/v-0000000001"].references
    assert {f"line-router-port/{KEY}", "uplink-router-port/v-0000000001"} <= router["ports"]
    routes = {f"line-route/{KEY}/172.20.0.0/16", "uplink-route/v-0000000001"}
    assert router["static_routes"] == routes


def test_only_allowed_prefixes_up_to_the_limit_become_routes_to_the_peer() -> None:
    line = make_line(prefix_limit=2)
    announced = ("172.20.3.0/24", "172.20.1.0/24", "10.9.0.0/16", "0.0.0.0/0", "172.20.2.0/24")
    rows = compile_rows(learn(line, *announced)).values()
    routes = [row.columns for row in rows if row.table == "Logical_Router_Static_Route"]
    assert routes == [
        {"ip_prefix": "172.20.1.0/24", "nexthop": "192.168.200.6"},
        {"ip_prefix": "172.20.2.0/24", "nexthop": "192.168.200.6"},
    ]


def test_packets_of_a_line_go_to_the_networks_own_subnets_alone() -> None:
    policy = compile_rows(make_line())[f"line-policy/{KEY}"].columns
    assert policy["action"] == "drop"
    assert policy["match"] == (
        f'inport == "gpupool-router-{KEY}" && ip4 && '
        "(ip4.dst != {192.168.200.0/29, 10.0.0.0/24} || "
        "ip4.src != {192.168.200.0/29, 172.20.0.0/16})"
    )


def test_a_smaller_mtu_of_the_line_is_the_router_ports() -> None:
    port = f"line-router-port/{KEY}"
    assert compile_rows(make_line(mtu=1500))[port].columns["options"] == {}
    assert compile_rows(make_line(mtu=1400))[port].columns["options"] == {"gateway_mtu": "1400"}


def test_a_job_reaches_learned_prefixes_over_the_line_and_no_others() -> None:
    network = replace(make_network(1, 1), lines=(learn(make_line(), "172.20.1.0/24"),))
    (job,) = network.ports
    over = decide_reach(network, job, "172.20.1.9", Traffic("tcp", 80))
    assert (over.is_reached, over.object) == (None, f"dedicated line {KEY}")
    assert decide_reach(network, job, "172.20.2.9", Traffic("tcp", 80)).is_reached is False
