"""Compiles the gateway of a network to rows of an OVN northbound database (ovn-nb(5)). Pure.

A logical switch with a port to the machine's uplink, a port of the network's router on it that one
chassis serves, a default route, and source NAT for each subnet.
"""

from __future__ import annotations

from gpupool.network.limiting.rows import compile_gateway_limit
from gpupool.network.model import Gateway, Network, make_mac
from gpupool.network.rows import NorthboundRow, Value

#: What the agent maps to the bridge of the uplink (`ovn-bridge-mappings`, ovn-controller(8)).
PHYSICAL_NETWORK = "gpupool"
#: The only chassis, as `system-id` names it.
CHASSIS = "gpupool"


def compile_gateway(network: Network, gateway: Gateway) -> tuple[NorthboundRow, ...]:
    """Compile a gateway to its rows, without the router that refers to them."""
    key = network.key
    port = f"gpupool-uplink-{key}"
    limits = compile_gateway_limit(key, name_cable(key), gateway.bandwidth)
    rows = [
        *limits,
        NorthboundRow(
            "Logical_Switch",
            f"uplink-switch/{key}",
            {"name": port},
            {
                "ports": frozenset({f"uplink-port/{key}", f"uplink-cable/{key}"}),
                "dns_records": frozenset(),
                "load_balancer": frozenset(),
                "qos_rules": frozenset(row.key for row in limits),
            },
        ),
        _make_switch_port(
            f"uplink-cable/{key}",
            name_cable(key),
            "localnet",
            "unknown",
            {"network_name": PHYSICAL_NETWORK},
        ),
        _make_switch_port(
            f"uplink-port/{key}", f"{port}-port", "router", "router", {"router-port": port}
        ),
        NorthboundRow(
            "Logical_Router_Port",
            key_router_port(network),
            {
                "name": port,
                "mac": make_mac(0x12, network.id),
                "networks": (f"{gateway.address}/{gateway.uplink.prefixlen}",),
                "peer": (),
            },
            {"gateway_chassis": frozenset({f"uplink-chassis/{key}"})},
        ),
        NorthboundRow(
            "Gateway_Chassis",
            f"uplink-chassis/{key}",
            {"name": port, "chassis_name": CHASSIS, "priority": 1},
        ),
        NorthboundRow(
            "Logical_Router_Static_Route",
            key_route(network),
            {"ip_prefix": "0.0.0.0/0", "nexthop": str(gateway.next_hop)},
        ),
    ]
    for subnet in network.subnets:
        rows.append(
            NorthboundRow(
                "NAT",
                f"uplink-nat/{subnet.key}",
                {
                    "type": "snat",
                    "external_ip": str(gateway.address),
                    "logical_ip": str(subnet.cidr),
                },
            )
        )
    return tuple(rows)


def name_cable(network: str) -> str:
    """Return the name of the logical switch port that leads to the machine."""
    return f"gpupool-uplink-{network}-cable"


def key_router_port(network: Network) -> str:
    return f"uplink-router-port/{network.key}"


def key_route(network: Network) -> str:
    return f"uplink-route/{network.key}"


def list_nat_keys(network: Network) -> frozenset[str]:
    """List the keys of the rows that translate addresses: one for each subnet."""
    return frozenset(f"uplink-nat/{subnet.key}" for subnet in network.subnets)


def _make_switch_port(
    key: str, name: str, kind: str, address: str, options: dict[str, str]
) -> NorthboundRow:
    columns: dict[str, Value] = {
        "name": name,
        "type": kind,
        "addresses": (address,),
        "port_security": (),
        "options": options,
    }
    return NorthboundRow("Logical_Switch_Port", key, columns)
