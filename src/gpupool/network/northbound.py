"""Compiles a network to rows of an OVN northbound database (ovn-nb(5)). Pure.

A network becomes a logical router; a subnet a logical switch, with a port on the router and DHCP
options; a port a logical switch port that accepts packets of its own addresses alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.rows import BalancedPort, compile_balancer, key_balancer
from gpupool.network.forwarding.rows import compile_forward, key_forward
from gpupool.network.gateway_rows import (
    compile_gateway,
    key_route,
    key_router_port,
    list_nat_keys,
)
from gpupool.network.limiting.rows import compile_port_limit, key_port_limit
from gpupool.network.lines.rows import (
    compile_line,
    key_line_policy,
    key_line_port,
    list_line_routes,
)
from gpupool.network.model import (
    LINK_PREFIX,
    Network,
    PeeringEnd,
    Port,
    Subnet,
    make_mac,
    make_proxy_mac,
    make_router_mac,
)
from gpupool.network.resolver_rows import (
    RESOLVER_ADDRESS,
    ROUTER_ADDRESS,
    compile_resolver,
    has_resolver,
    key_resolver,
    key_resolver_nat,
)
from gpupool.network.rows import NorthboundRow
from gpupool.network.security.rows import compile_group

#: Seconds of a DHCP lease. Addresses never move, so it only bounds how late a change of options
#: reaches a client.
_LEASE_SECONDS = 3600


def compile_network(network: Network) -> tuple[NorthboundRow, ...]:
    """Compile a network with its subnets and ports to all of its rows."""
    rows = [_compile_router(network), *compile_resolver(network)]
    by_subnet: dict[str, list[Port]] = {subnet.key: [] for subnet in network.subnets}
    for port in network.ports:
        by_subnet[port.subnet].append(port)
    proxies = [one.proxy for one in network.balancers if one.proxy is not None]
    for subnet in network.subnets:
        ports = by_subnet[subnet.key]
        rows.append(_compile_router_port(network, subnet))
        here = [proxy for proxy in proxies if proxy.subnet == subnet.key]
        rows.append(_compile_switch(network, subnet, [*ports, *here]))
        rows.append(_compile_switch_router_port(subnet))
        rows.append(_compile_dhcp(network, subnet))
        rows += [_compile_port(subnet, port, port.mac) for port in ports]
        rows += [_compile_port(subnet, one, make_proxy_mac(one.number)) for one in here]
        for port in ports:
            rows += compile_port_limit(port.key, name_port(port.key), port.bandwidth)
    for end in network.peerings:
        rows.append(_compile_peering_port(end))
        rows += [_compile_route(end, prefix) for prefix in end.prefixes]
    rows += _compile_balancers(network)
    routers = [str(subnet.gateway) for subnet in network.subnets]
    routers += [str(subnet.probe) for subnet in network.subnets if subnet.probe is not None]
    # A load balancer of HTTP asks its backends itself.
    routers += [str(proxy.address) for proxy in proxies]
    for group in network.groups:
        inside = (f"port/{port.key}" for port in network.ports if group.key in port.groups)
        rows += compile_group(group, inside, routers)
    if network.gateway is not None:
        rows += compile_gateway(network, network.gateway)
    prefixes = [subnet.cidr for subnet in network.subnets]
    for line in network.lines:
        rows += compile_line(line, prefixes, network.mtu)
    return tuple(rows)


def _compile_balancers(network: Network) -> list[NorthboundRow]:
    probes = {subnet.key: subnet.probe for subnet in network.subnets}
    ports = [
        BalancedPort(port.name, name_port(port.key), port.address, probes[port.subnet])
        for port in network.ports
    ]
    rows = list[NorthboundRow]()
    for balancer in network.balancers:
        rows += compile_balancer(balancer, ports)
    if network.gateway is not None:
        outer = str(network.gateway.address)
        for forward in network.forwards:
            rows.append(compile_forward(forward, outer, ports, network.balancers))
    return rows


def name_port(port: str) -> str:
    """Return the name of a logical switch port, which is also the `iface-id` of its interface."""
    return f"gpupool-{port}"


def _compile_router(network: Network) -> NorthboundRow:
    has_gateway = network.gateway is not None
    uplink = frozenset({key_router_port(network)}) if has_gateway else frozenset[str]()
    default = frozenset({key_route(network)}) if has_gateway else frozenset[str]()
    return NorthboundRow(
        "Logical_Router",
        f"router/{network.key}",
        {"name": f"gpupool-{network.key}"},
        {
            "ports": _keys("router-port", (subnet.key for subnet in network.subnets))
            | frozenset(_key_end(end) for end in network.peerings)
            | uplink
            | frozenset(map(key_line_port, network.lines)),
            "static_routes": frozenset(
                _key_route(end, prefix) for end in network.peerings for prefix in end.prefixes
            )
            | default
            | frozenset[str]().union(*map(list_line_routes, network.lines)),
            "policies": frozenset(map(key_line_policy, network.lines)),
            "nat": list_nat_keys(network) | {key_resolver_nat(network)}
            if has_gateway
            else frozenset(),
            "load_balancer": frozenset(map(key_forward, network.forwards if has_gateway else ())),
        },
    )


def _compile_router_port(network: Network, subnet: Subnet) -> NorthboundRow:
    prefixes = [f"{subnet.gateway}/{subnet.cidr.prefixlen}"]
    if has_resolver(network, subnet):
        prefixes.append(f"{ROUTER_ADDRESS}/{RESOLVER_ADDRESSES.prefixlen}")
    return NorthboundRow(
        "Logical_Router_Port",
        f"router-port/{subnet.key}",
        {
            "name": f"gpupool-router-{subnet.key}",
            "mac": make_router_mac(subnet),
            "networks": tuple(sorted(prefixes)),
            "peer": (),
        },
        {"gateway_chassis": frozenset()},
    )


def _compile_peering_port(end: PeeringEnd) -> NorthboundRow:
    """Compile this network's end of a link: two router ports that name each other."""
    return NorthboundRow(
        "Logical_Router_Port",
        _key_end(end),
        {
            "name": _name_end(end, end.is_requester),
            "mac": make_mac(0x1A if end.is_requester else 0x1E, end.id),
            "networks": (f"{end.address}/{LINK_PREFIX}",),
            "peer": (_name_end(end, not end.is_requester),),
        },
    )


def _compile_route(end: PeeringEnd, prefix: IPv4Network) -> NorthboundRow:
    return NorthboundRow(
        "Logical_Router_Static_Route",
        _key_route(end, prefix),
        {"ip_prefix": str(prefix), "nexthop": str(end.next_hop)},
    )


def _name_end(end: PeeringEnd, is_requester: bool) -> str:
    return f"gpupool-{end.key}-{'requester' if is_requester else 'accepter'}"


def _key_end(end: PeeringEnd) -> str:
    # Both ends are rows of one pool, so their keys differ.
    return f"peering/{end.key}/{'requester' if end.is_requester else 'accepter'}"


def _key_route(end: PeeringEnd, prefix: IPv4Network) -> str:
    return f"{_key_end(end)}/{prefix}"


def _compile_switch(
    network: Network, subnet: Subnet, ports: Iterable[Port | ProxyPort]
) -> NorthboundRow:
    ours = _keys("port", (port.key for port in ports))
    if has_resolver(network, subnet):
        ours |= {key_resolver(network)}
    return NorthboundRow(
        "Logical_Switch",
        f"switch/{subnet.key}",
        {"name": f"gpupool-{subnet.key}"},
        {
            "ports": ours | {f"switch-router-port/{subnet.key}"},
            # Names are the resolver's to answer: OVN's own are asked over UDP alone.
            "dns_records": frozenset(),
            "load_balancer": frozenset(map(key_balancer, network.balancers)),
            "qos_rules": frozenset(
                key_port_limit(port.key)
                for port in ports
                if isinstance(port, Port) and port.bandwidth.out_kbit is not None
            ),
        },
    )


def _compile_switch_router_port(subnet: Subnet) -> NorthboundRow:
    return NorthboundRow(
        "Logical_Switch_Port",
        f"switch-router-port/{subnet.key}",
        {
            "name": f"gpupool-gateway-{subnet.key}",
            "type": "router",
            "addresses": ("router",),
            "options": {"router-port": f"gpupool-router-{subnet.key}"},
        },
    )


def _compile_dhcp(network: Network, subnet: Subnet) -> NorthboundRow:
    return NorthboundRow(
        "DHCP_Options",
        f"dhcp/{subnet.key}",
        {
            "cidr": str(subnet.cidr),
            "options": {
                "lease_time": str(_LEASE_SECONDS),
                "router": str(subnet.gateway),
                "server_id": str(subnet.gateway),
                "server_mac": make_router_mac(subnet),
                "dns_server": str(RESOLVER_ADDRESS),
                "domain_name": f'"{network.domain}"',
                "mtu": str(network.mtu),
            },
        },
    )


def _compile_port(subnet: Subnet, port: Port | ProxyPort, mac: str) -> NorthboundRow:
    address = f"{mac} {port.address}"
    return NorthboundRow(
        "Logical_Switch_Port",
        f"port/{port.key}",
        {
            "name": name_port(port.key),
            "addresses": (address,),
            "port_security": (address,),
        },
        {"dhcpv4_options": frozenset({f"dhcp/{subnet.key}"})},
    )


def _keys(kind: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{kind}/{name}" for name in names)
