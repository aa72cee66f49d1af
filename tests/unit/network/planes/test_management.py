"""Ways from networks to the management network."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from gpupool.network.lines.model import Line
from gpupool.network.model import Gateway, PeeringEnd
from gpupool.network.planes.management import BoundaryRule, list_exposures
from tests.unit.network.networks import make_network

NETWORK = make_network(1, 0)
PREFIX = IPv4Network("172.31.0.0/24")
GATEWAY = Gateway(
    IPv4Address("169.254.64.2"), IPv4Network("169.254.64.0/24"), IPv4Address("169.254.64.1")
)
WAYOUT = replace(NETWORK, gateway=GATEWAY)


def make_rule(action: str, prefix: str, *, is_whole: bool = True) -> BoundaryRule:
    return BoundaryRule(action, IPv4Network(prefix), is_whole)


def test_a_network_without_a_way_out_reaches_nothing() -> None:
    assert list_exposures(NETWORK, [PREFIX], []) == []


@pytest.mark.parametrize(
    ("rules", "is_closed"),
    [
        ([], False),
        ([make_rule("deny", "172.31.0.0/24")], True),
        ([make_rule("deny", "172.16.0.0/12")], True),
        ([make_rule("deny", "172.31.0.0/25")], False),
        ([make_rule("deny", "172.31.0.0/24", is_whole=False)], False),
        ([make_rule("allow", "172.31.0.9/32"), make_rule("deny", "172.31.0.0/24")], False),
        ([make_rule("deny", "172.31.0.0/24"), make_rule("allow", "0.0.0.0/0")], True),
        ([make_rule("allow", "192.0.2.0/24"), make_rule("deny", "172.31.0.0/24")], True),
    ],
)
def test_a_gateway_is_closed_by_a_rule_for_the_whole_prefix(
    rules: list[BoundaryRule], is_closed: bool
) -> None:
    found = list_exposures(WAYOUT, [PREFIX], rules)
    assert (found == []) is is_closed
    if not is_closed:
        assert found[0].startswith("the gateway of net1 leads to 172.31.0.0/24: gpupool network")


def test_subnets_peerings_and_lines_lead_to_a_prefix() -> None:
    end = PeeringEnd(1, "p-1", True, (IPv4Network("172.31.0.128/25"),))
    line = Line(
        key="l-1",
        vlan=200,
        address=IPv4Interface("192.168.200.1/29"),
        speaker=IPv4Address("192.168.200.2"),
        peer=IPv4Address("192.168.200.6"),
        mtu=1500,
        prefix_limit=100,
        allowed=(IPv4Network("172.16.0.0/12"),),
    )
    network = replace(
        make_network(2, 0, IPv4Network("172.31.0.0/28")), peerings=(end,), lines=(line,)
    )
    assert list_exposures(network, [PREFIX], []) == [
        "subnet 172.31.0.0/28 of net2 has addresses of 172.31.0.0/24",
        "a peering of net2 leads to 172.31.0.128/25, which has addresses of 172.31.0.0/24",
        "VLAN 200 of net2 leads to 172.16.0.0/12, which has addresses of 172.31.0.0/24",
    ]
    assert list_exposures(network, [IPv4Network("192.0.2.0/24")], []) == []
