"""Security groups become port groups whose lists take what rules say, and refuse the rest."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

import pytest

from gpupool.network.northbound import compile_network
from gpupool.network.rows import NorthboundRow
from gpupool.network.security.model import SecurityGroup, SecurityRule
from gpupool.network.security.rows import compile_group
from tests.unit.network.networks import make_network

NAME = "gpupool_g_web"


def list_matches(rows: tuple[NorthboundRow, ...]) -> dict[str, tuple[object, object, object]]:
    return {
        row.key.rsplit("/", 1)[1]: (
            row.columns["priority"],
            row.columns["match"],
            row.columns["action"],
        )
        for row in rows
        if row.table == "ACL"
    }


def test_a_group_without_rules_takes_its_members_and_its_router_alone() -> None:
    rows = compile_group(SecurityGroup("g-web", "web"), ["port/n-1"], ["10.0.0.1", "10.0.1.1"])
    assert list_matches(rows) == {
        "router": (
            3000,
            f"outport == @{NAME} && ip4.src == {{10.0.0.1, 10.0.1.1}}",
            "allow-related",
        ),
        "members": (2000, f"outport == @{NAME} && ip4.src == ${NAME}_ip4", "allow-related"),
        "others": (1000, f"outport == @{NAME} && ip", "drop"),
    }
    (group,) = [row for row in rows if row.table == "Port_Group"]
    assert group.columns == {"name": NAME}
    assert group.references["ports"] == {"port/n-1"}
    assert group.references["acls"] == {row.key for row in rows if row.table == "ACL"}


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (SecurityRule("r", "any"), "ip4"),
        (SecurityRule("r", "icmp"), "icmp4"),
        (SecurityRule("r", "tcp"), "tcp"),
        (SecurityRule("r", "tcp", 22, 22), "tcp.dst == 22"),
        (SecurityRule("r", "udp", 80, 90), "udp.dst >= 80 && udp.dst <= 90"),
        (
            SecurityRule("r", "tcp", 22, 22, IPv4Network("10.0.0.0/8")),
            "tcp.dst == 22 && ip4.src == 10.0.0.0/8",
        ),
        (
            SecurityRule("r", "tcp", 22, 22, None, "g-ops"),
            "tcp.dst == 22 && ip4.src == $gpupool_g_ops_ip4",
        ),
    ],
)
def test_a_rule_takes_its_protocol_ports_and_source(rule: SecurityRule, match: str) -> None:
    rows = compile_group(SecurityGroup("g-web", "web", (rule,)), [], ["10.0.0.1"])
    assert list_matches(rows)["r"] == (2000, f"outport == @{NAME} && {match}", "allow-related")


def test_only_ports_that_name_a_group_are_in_it() -> None:
    network = make_network(1, 3)
    ports = (replace(network.ports[0], groups=("g-web",)), *network.ports[1:])
    network = replace(network, ports=ports, groups=(SecurityGroup("g-web", "web"),))
    (group,) = [row for row in compile_network(network) if row.table == "Port_Group"]
    assert group.references["ports"] == {f"port/{network.ports[0].key}"}
