"""Compiles the gateway of a network to rows of an OVN northbound database (ovn-nb(5)). Pure.

A logical switch with a port to the machine's uplink, a port of the network's router on it that one
chassis serves or one of a pair, a default route, and source NAT for each subnet.
"""

from __future__ import annotations

from gpupool.network.floating.rows import compile_floating
from gpupool.network.gateways.rows import GROUP_KEY
from gpupool.network.ipv6.gateway_rows import list_gateway_networks6
from gpupool.network.limiting.rows import compile_gateway_limit
from gpupool.network.model import Gateway, Network
from gpupool.network.rows import NorthboundRow, Value

#: What the agent maps to the bridge of the uplink (`ovn-bridge-mappings`, ovn-controller(8)).
PHYSICAL_NETWORK = "gpupool"
#: The centre, as `system-id` names it.
CHASSIS = "gpupool"
#: Above those of lines and routes: what is dropped here is dropped for every source.
_POLICY_PRIORITY = 4000


def compile_gateway(network: Network, gateway: Gateway) -> tuple[NorthboundRow, ...]:
    """Compile a gateway to its rows, without the router that refers to them."""
    key = network.key
    port = name_router_port(network)
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
                "mac": gateway.mac,
                "networks": tuple(sorted(_list_networks(gateway))),
                "peer": (),
            },
            _refer_to_chassis(network, gateway),
        ),
        *_compile_chassis(network, gateway, port),
        NorthboundRow(
            "Logical_Router_Static_Route",
            key_route(network),
            {"ip_prefix": "0.0.0.0/0", "nexthop": str(gateway.next_hop)},
        ),
        # Gateways share a cable. Two tenants that send to each other's would answer each other by
        # source NAT, past the rules of the machine.
        NorthboundRow(
            "Logical_Router_Policy",
            key_gateway_policy(network),
            {
                "priority": _POLICY_PRIORITY,
                "match": f"ip4.dst == {gateway.uplink} && ip4.dst != {gateway.next_hop}",
                "action": "drop",
            },
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
    return (*rows, *compile_floating(network))


def _list_networks(gateway: Gateway) -> list[str]:
    return [f"{gateway.address}/{gateway.uplink.prefixlen}", *list_gateway_networks6(gateway)]


def _refer_to_chassis(network: Network, gateway: Gateway) -> dict[str, frozenset[str]]:
    return {
        "gateway_chassis": frozenset(() if gateway.is_paired else {_key_chassis(network)}),
        "ha_chassis_group": frozenset({GROUP_KEY} if gateway.is_paired else ()),
    }


def _compile_chassis(network: Network, gateway: Gateway, port: str) -> list[NorthboundRow]:
    if gateway.is_paired:
        return []
    columns: dict[str, Value] = {"name": port, "chassis_name": CHASSIS, "priority": 1}
    return [NorthboundRow("Gateway_Chassis", _key_chassis(network), columns)]


def _key_chassis(network: Network) -> str:
    return f"uplink-chassis/{network.key}"


def name_cable(network: str) -> str:
    """Return the name of the logical switch port that leads to the machine."""
    return f"gpupool-uplink-{network}-cable"


def name_router_port(network: Network) -> str:
    """Return the name of the router's port to the uplink."""
    return f"gpupool-uplink-{network.key}"


def key_router_port(network: Network) -> str:
    return f"uplink-router-port/{network.key}"


def key_route(network: Network) -> str:
    return f"uplink-route/{network.key}"


def key_gateway_policy(network: Network) -> str:
    return f"uplink-policy/{network.key}"


def list_nat_keys(network: Network) -> frozenset[str]:
    """List the keys of the rows that translate addresses: of subnets, and of floating IPs."""
    subnets = frozenset(f"uplink-nat/{subnet.key}" for subnet in network.subnets)
    return subnets | {row.key for row in compile_floating(network)}


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
