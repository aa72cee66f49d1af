"""Flow logs as rows of the northbound database."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from gpupool.network.flows.model import FlowVerdict, join_choices
from gpupool.network.flows.rows import name_meter, parse_meter
from gpupool.network.model import Network, Port
from gpupool.network.northbound import compile_network
from gpupool.network.rows import NorthboundRow
from gpupool.network.security.model import SecurityGroup, SecurityRule
from tests.unit.network.routing.test_route_table import NETWORK

GROUP = SecurityGroup("g-1", "db", (SecurityRule("r-1", "tcp", 7000, 7000),))
INSIDE = Port(7, "n-7", "s-1", IPv4Address("10.0.0.7"), "db", ("g-1",))
OUTSIDE = Port(8, "n-8", "s-1", IPv4Address("10.0.0.8"), "web")


def compile_rows(*verdicts: FlowVerdict) -> dict[str, NorthboundRow]:
    network: Network = replace(
        NETWORK, ports=(INSIDE, OUTSIDE), groups=(GROUP,), logged=frozenset(verdicts)
    )
    return {row.key: row for row in compile_network(network)}


def list_names(rows: dict[str, NorthboundRow]) -> list[object]:
    return sorted(
        row.columns["name"] for row in rows.values() if row.table == "ACL" and row.columns["log"]
    )


def test_without_flow_logs_nothing_is_logged_and_no_row_is_added() -> None:
    rows = compile_rows()
    assert list_names(rows) == []
    assert not {"Meter", "Meter_Band"} & {row.table for row in rows.values()}
    assert "port-group/flows/v-1" not in rows


def test_denied_packets_are_logged_by_the_refusal_of_their_group() -> None:
    rows = compile_rows("denied")
    assert list_names(rows) == [("v-1/g-1/others",)]
    assert rows["acl/g-1/others"].columns["meter"] == ("gpupool-flows-v-1-denied",)
    assert "port-group/flows/v-1" not in rows
    meters = [row for row in rows.values() if row.table == "Meter"]
    assert [row.references for row in meters] == [
        {"bands": frozenset({"flow-meter/v-1/denied/band"})}
    ]


def test_allowed_packets_are_logged_also_of_jobs_in_no_group() -> None:
    rows = compile_rows("allowed")
    assert list_names(rows) == [
        ("v-1/default/v-1",),
        ("v-1/g-1/members",),
        ("v-1/g-1/r-1",),
        ("v-1/g-1/router",),
    ]
    group = rows["port-group/flows/v-1"]
    assert group.references["ports"] == {"port/n-8"}
    assert rows["acl/default/v-1"].columns["action"] == "allow"
    # Every rule of a group goes before it.
    assert rows["acl/default/v-1"].columns["priority"] == 1


@pytest.mark.parametrize(
    ("choices", "verdicts"),
    [((), set()), (("denied",), {"denied"}), (("denied", "all"), {"allowed", "denied"})],
)
def test_a_network_logs_what_any_of_its_logs_has(
    choices: tuple[str, ...], verdicts: set[str]
) -> None:
    assert join_choices(choices) == verdicts


def test_the_name_of_a_meter_leads_back_to_its_network() -> None:
    assert parse_meter(name_meter("v-1", "denied")) == "v-1"
    assert parse_meter("another") is None
