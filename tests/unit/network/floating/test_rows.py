"""A floating IP becomes a NAT row of both directions on the machine that has the gateway."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

from gpupool.network.floating.model import FloatingIp
from gpupool.network.model import Network, make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.rows import NorthboundRow
from tests.unit.network.networks import make_network

GATEWAY = make_gateway(1, IPv4Network("198.18.0.0/16"))


def compile_with(target: str, network: Network) -> dict[str, NorthboundRow]:
    inner = IPv4Address("198.18.128.1")
    floating = FloatingIp("i-1", IPv4Address("203.0.113.40"), inner, target)
    wanted = replace(network, floating_ips=(floating,))
    return {row.key: row for row in compile_network(wanted)}


def test_a_running_job_has_its_address_in_both_directions() -> None:
    rows = compile_with("job-1001", replace(make_network(1, 2), gateway=GATEWAY))
    assert rows["floating-ip/i-1"].columns == {
        "type": "dnat_and_snat",
        "external_ip": "198.18.128.1",
        "logical_ip": "10.0.0.11",
    }
    router = rows["router/v-0000000001"]
    assert "floating-ip/i-1" in router.references["nat"]
    # The network's own translation stays, for the other jobs.
    assert "uplink-nat/s-0000000001" in router.references["nat"]


def test_without_the_job_or_the_gateway_there_is_no_row() -> None:
    for rows in (
        compile_with("later", replace(make_network(1, 2), gateway=GATEWAY)),
        compile_with("job-1001", make_network(1, 2)),
    ):
        assert "floating-ip/i-1" not in rows
        assert "floating-ip/i-1" not in rows["router/v-0000000001"].references["nat"]
