"""Compiles dedicated lines to rows of an OVN northbound database (ovn-nb(5)). Pure.

A line is a logical switch with a port to the machine's interface for lines (a VLAN), a port of the
network's router, and a port of the BGP speaker. What the peer announces becomes routes to the peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from gpupool.network.gateway_rows import CHASSIS
from gpupool.network.lines.model import Line
from gpupool.network.lines.translation import see_outside
from gpupool.network.rows import NorthboundRow, Value

#: What the agent maps to the bridge of the interface for lines (`ovn-bridge-mappings`).
LINE_NETWORK = "gpupool-lines"
#: Of the policy that bounds what comes over a line; the pool has no others.
_POLICY_PRIORITY = 100


def compile_line(
    line: Line, subnets: Sequence[IPv4Network], network_mtu: int
) -> tuple[NorthboundRow, ...]:
    """Compile a line to its rows, without the router that refers to them.

    Args:
        subnets: those of the network: packets of the line go nowhere else.
    """
    key = line.key
    router_port = name_line_port(line)
    parts = {f"line-cable/{key}", f"line-port/{key}", f"line-speaker/{key}"}
    speaker = f"{line.speaker_mac} {line.speaker}"
    sources = " ".join((speaker, *_list_translated(line, subnets)))
    cable = _make_port(key, "cable", "localnet", "unknown", {"network_name": LINE_NETWORK})
    rows = [
        NorthboundRow(
            "Logical_Switch",
            f"line-switch/{key}",
            {"name": f"gpupool-line-{key}"},
            {
                "ports": frozenset(parts),
                "dns_records": frozenset(),
                "load_balancer": frozenset(),
            },
        ),
        NorthboundRow(cable.table, cable.key, {**cable.columns, "tag": (line.vlan,)}),
        _make_port(key, "port", "router", "router", {"router-port": router_port}),
        NorthboundRow(
            "Logical_Switch_Port",
            f"line-speaker/{key}",
            {"name": f"gpupool-{key}", "addresses": (speaker,), "port_security": (sources,)},
        ),
        NorthboundRow(
            "Logical_Router_Port",
            key_line_port(line),
            {
                "name": router_port,
                "mac": line.router_mac,
                "networks": (str(line.address),),
                "peer": (),
                "options": {"gateway_mtu": str(line.mtu)} if line.mtu < network_mtu else {},
            },
            {"gateway_chassis": frozenset({f"line-chassis/{key}"})},
        ),
        NorthboundRow(
            "Gateway_Chassis",
            f"line-chassis/{key}",
            {"name": router_port, "chassis_name": CHASSIS, "priority": 1},
        ),
        NorthboundRow(
            "Logical_Router_Policy",
            key_line_policy(line),
            {
                "priority": _POLICY_PRIORITY,
                "match": _match_foreign(line, router_port, subnets),
                "action": "drop",
            },
        ),
    ]
    for prefix in line.list_routes():
        rows.append(
            NorthboundRow(
                "Logical_Router_Static_Route",
                _key_route(line, prefix),
                {"ip_prefix": str(prefix), "nexthop": str(line.next_hop)},
            )
        )
    return tuple(rows)


def name_line_port(line: Line) -> str:
    """Return the name of the router's port to a line."""
    return f"gpupool-router-{line.key}"


def key_line_port(line: Line) -> str:
    return f"line-router-port/{line.key}"


def key_line_policy(line: Line) -> str:
    return f"line-policy/{line.key}"


def list_line_routes(line: Line) -> frozenset[str]:
    """List the keys of the routes to the peer."""
    return frozenset(_key_route(line, prefix) for prefix in line.list_routes())


def _key_route(line: Line, prefix: IPv4Network) -> str:
    return f"line-route/{line.key}/{prefix}"


def _list_translated(line: Line, subnets: Iterable[IPv4Network]) -> list[str]:
    """List the sources of what a speaker that translates sends to both sides; sorted."""
    if not line.is_translated:
        return []
    ours = (see_outside(subnet, line.translations) for subnet in subnets)
    return sorted(map(str, (*ours, *line.seen_allowed)))


def _match_foreign(line: Line, router_port: str, subnets: Iterable[IPv4Network]) -> str:
    """Match what the peer may not send: to peered networks and gateways, or from elsewhere."""
    targets = ", ".join(str(one) for one in (line.link, *subnets))
    sources = ", ".join(str(one) for one in (line.link, *line.seen_allowed))
    return (
        f'inport == "{router_port}" && ip4 && '
        f"(ip4.dst != {{{targets}}} || ip4.src != {{{sources}}})"
    )


def _make_port(
    key: str, part: str, kind: str, address: str, options: dict[str, str]
) -> NorthboundRow:
    columns: dict[str, Value] = {
        "name": f"gpupool-{part}-{key}",
        "type": kind,
        "addresses": (address,),
        "port_security": (),
        "options": options,
    }
    return NorthboundRow("Logical_Switch_Port", f"line-{part}/{key}", columns)
