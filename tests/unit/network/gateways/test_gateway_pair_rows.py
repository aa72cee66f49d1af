"""What a pair of gateways becomes in OVN, and what networks refer to."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from gpupool.network.gateways.model import GatewayPair, GatewayRole, make_priority, read_role
from gpupool.network.gateways.rows import DRILL_ADDRESS, GROUP_KEY, compile_pair
from gpupool.network.model import make_gateway
from gpupool.network.northbound import compile_network
from tests.unit.network.networks import make_network

UPLINK = IPv4Network("198.18.0.0/16")


def test_a_pair_begins_with_its_first_machine_active() -> None:
    group, *members = compile_pair(GatewayPair(("a", "b")))
    assert group.references["ha_chassis"] == {member.key for member in members}
    initial = {row.columns["chassis_name"]: row.initial["priority"] for row in members}
    assert initial == {"a": 31, "b": 20}
    # Watchdogs write priorities: the reconciler compares none.
    assert all("priority" not in row.columns for row in members)


@pytest.mark.parametrize("role", GatewayRole)
def test_two_machines_never_have_one_priority(role: GatewayRole) -> None:
    assert read_role(make_priority(role, is_first=True)) is role
    assert read_role(make_priority(role, is_first=False)) is role
    assert make_priority(role, is_first=True) > make_priority(role, is_first=False)
    assert read_role(99) is GatewayRole.AWAY


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_gateway_is_on_the_pair_or_on_the_centre(is_paired: bool) -> None:
    gateway = replace(make_gateway(7, UPLINK), is_paired=is_paired)
    rows = compile_network(replace(make_network(7, 1), gateway=gateway))
    tables = {row.table for row in rows}
    assert ("Gateway_Chassis" in tables) is not is_paired
    (port,) = [row for row in rows if row.references.get("ha_chassis_group") is not None]
    groups = port.references["ha_chassis_group"]
    assert groups == (frozenset({GROUP_KEY}) if is_paired else frozenset())


def test_a_drill_has_a_port_of_its_own_while_it_runs() -> None:
    network = make_network(7, 2)
    before = {row.key for row in compile_network(network)}
    rows = {row.key: row for row in compile_network(replace(network, drill="n-drill"))}
    (port,) = [rows[key] for key in rows.keys() - before]
    assert str(DRILL_ADDRESS) in str(port.columns["addresses"])
    assert port.columns["port_security"] == port.columns["addresses"]
    holders = [row for row in rows.values() if port.key in row.references.get("ports", ())]
    assert [row.table for row in holders] == ["Logical_Switch"]
