"""Limits become meters of the switch: one for what leaves a port, two for a gateway."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

from gpupool.network.limiting.model import Bandwidth
from gpupool.network.model import make_gateway
from gpupool.network.northbound import compile_network
from gpupool.network.rows import NorthboundRow, plan_changes
from tests.unit.network.networks import make_network

NETWORK = make_network(1, 3)
UPLINK = IPv4Network("198.18.0.0/16")


def list_limits(rows: tuple[NorthboundRow, ...]) -> dict[str, tuple[object, ...]]:
    return {
        row.key: (row.columns["direction"], row.columns["match"], row.columns["bandwidth"])
        for row in rows
        if row.table == "QoS"
    }


def test_what_leaves_a_limited_port_passes_a_meter_with_a_burst_of_a_second() -> None:
    first, second, third = NETWORK.ports
    limited = replace(
        NETWORK,
        ports=(
            replace(first, bandwidth=Bandwidth(None, 20_000)),
            replace(second, bandwidth=Bandwidth(20_000, None)),
            third,
        ),
    )
    rows = compile_network(limited)
    # 4 % above the limit, for headers.
    assert list_limits(rows) == {
        f"port-limit/{first.key}": (
            "from-lport",
            f'inport == "gpupool-{first.key}"',
            {"rate": 20_800, "burst": 20_800},
        )
    }
    (switch,) = (row for row in rows if row.key.startswith("switch/"))
    assert switch.references["qos_rules"] == {f"port-limit/{first.key}"}
    changes = plan_changes(compile_network(NETWORK), {row.key: row for row in rows})
    assert [row.key for row in changes.deleted] == [f"port-limit/{first.key}"]
    assert [update.removed for update in changes.updated] == [
        {"qos_rules": frozenset({f"port-limit/{first.key}"})}
    ]


def test_a_gateway_has_a_meter_for_each_direction() -> None:
    gateway = replace(make_gateway(1, UPLINK), bandwidth=Bandwidth(100_000, 50_000))
    rows = compile_network(replace(NETWORK, gateway=gateway))
    cable = f"gpupool-uplink-{NETWORK.key}-cable"
    assert list_limits(rows) == {
        f"gateway-limit/{NETWORK.key}/in": (
            "from-lport",
            f'inport == "{cable}"',
            {"rate": 104_000, "burst": 104_000},
        ),
        f"gateway-limit/{NETWORK.key}/out": (
            "to-lport",
            f'outport == "{cable}"',
            {"rate": 52_000, "burst": 52_000},
        ),
    }
    assert any(row.columns.get("name") == cable for row in rows)
