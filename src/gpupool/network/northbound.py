"""Compiles a network to rows of an OVN northbound database (ovn-nb(5)). Pure.

A network becomes a logical router; a subnet a logical switch, with a port on the router and DHCP
options; a port a logical switch port that accepts packets of its own addresses alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.rows import BalancedPort, compile_balancer, key_balancer
from gpupool.network.flows.rows import log_flows
from gpupool.network.forwarding.rows import compile_forward
from gpupool.network.gateway_rows import (
    compile_gateway,
    key_gateway_policy,
    key_route,
    key_router_port,
    list_nat_keys,
    name_router_port,
)
from gpupool.network.gateways.rows import compile_drill_port, key_drill_port
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.ipv6.gateway_rows import compile_gateway6, list_gateway_keys6
from gpupool.network.ipv6.rows import (
    compile_dhcp,
    compile_drops,
    make_advertisements,
    reference_dhcp,
)
from gpupool.network.limiting.rows import compile_port_limit, key_port_limit
from gpupool.network.lines.rows import (
    compile_line,
    key_line_policy,
    key_line_port,
    list_line_routes,
    name_line_port,
)
from gpupool.network.model import (
    Network,
    Port,
    Subnet,
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
from gpupool.network.routing.peering_rows import compile_peering, list_peering_keys
from gpupool.network.routing.rows import add_routes, list_forwarded
from gpupool.network.rows import NorthboundRow
from gpupool.network.security.rows import compile_group

#: Seconds of a DHCP lease. Addresses never move, so it only bounds how late a change of options
#: reaches a client.
_LEASE_SECONDS = 3600


def compile_network(network: Network) -> tuple[NorthboundRow, ...]:
    """Compile a network with its subnets and ports to all of its rows."""
    rows = [_compile_router(network), *compile_resolver(network), *compile_drill_port(network)]
    by_subnet: dict[str, list[Port]] = {subnet.key: [] for subnet in network.subnets}
    for port in network.ports:
        by_subnet[port.subnet].append(port)
    proxies = [proxy for balancer in network.balancers for proxy in balancer.proxy_ports]
    for subnet in network.subnets:
        ports = by_subnet[subnet.key]
        rows.append(_compile_router_port(network, subnet))
        here = [proxy for proxy in proxies if proxy.subnet == subnet.key]
        rows.append(_compile_switch(network, subnet, [*ports, *here]))
        rows.append(_compile_switch_router_port(subnet))
        rows.append(_compile_dhcp(network, subnet))
        rows += compile_dhcp(network, subnet)
        for port in ports:
            forwarded = list_forwarded(network.routes, port)
            rows.append(_compile_port(subnet, port, port.mac, *forwarded))
        for one in here:
            mac = make_proxy_mac(one.number, is_standby=one.is_standby)
            rows.append(_compile_port(subnet, one, mac))
        for port in ports:
            rows += compile_port_limit(port.key, name_port(port.key), port.bandwidth)
    for end in network.peerings:
        rows += compile_peering(end)
    rows += _compile_balancers(network)
    # A load balancer of HTTP asks its backends itself.
    routers = [*_list_routers(network), *(str(proxy.address) for proxy in proxies)]
    for group in network.groups:
        inside = (f"port/{port.key}" for port in network.ports if group.key in port.groups)
        rows += compile_group(group, inside, routers, _list_routers6(network))
    rows += _compile_drops(network)
    if network.gateway is not None:
        rows += compile_gateway(network, network.gateway)
    rows += compile_gateway6(network)
    prefixes = [subnet.cidr for subnet in network.subnets]
    for line in network.lines:
        rows += compile_line(line, prefixes, network.mtu)
    return log_flows(network, add_routes(network, rows))


def _list_routers(network: Network) -> list[str]:
    """List the addresses of the router and of probes in all subnets."""
    routers = [str(subnet.gateway) for subnet in network.subnets]
    return routers + [str(subnet.probe) for subnet in network.subnets if subnet.probe is not None]


def _list_routers6(network: Network) -> list[str]:
    """List them for IPv6; none where the network has no IPv6."""
    found = list[str]()
    for cidr6 in (subnet.cidr6 for subnet in network.subnets if subnet.cidr6 is not None):
        found += [str(ipv6.find_gateway(cidr6)), str(ipv6.find_probe(cidr6))]
    return found


def _compile_drops(network: Network) -> list[NorthboundRow]:
    ports = [name_line_port(line) for line in network.lines]
    if network.gateway is not None and network.gateway.address6 is None:
        ports.append(name_router_port(network))
    return compile_drops(network, ports)


def _compile_balancers(network: Network) -> list[NorthboundRow]:
    by_key = {subnet.key: subnet for subnet in network.subnets}
    ports = [_make_balanced(port, by_key[port.subnet]) for port in network.ports]
    rows = list[NorthboundRow]()
    for balancer in network.balancers:
        rows += compile_balancer(balancer, ports, has_ipv6=network.has_ipv6)
    return rows + _compile_forwards(network, ports)


def _compile_forwards(network: Network, ports: Sequence[BalancedPort]) -> list[NorthboundRow]:
    gateway = network.gateway
    if gateway is None:
        return []
    balancers = network.balancers
    return [compile_forward(one, gateway, ports, balancers) for one in network.forwards]


def _make_balanced(port: Port, subnet: Subnet) -> BalancedPort:
    name = name_port(port.key)
    if port.address6 is None or subnet.cidr6 is None:
        return BalancedPort(port.name, name, port.address, subnet.probe)
    probe6 = None if subnet.probe is None else ipv6.find_probe(subnet.cidr6)
    return BalancedPort(port.name, name, port.address, subnet.probe, port.address6, probe6)


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
            | list_peering_keys(network, "Logical_Router_Port")
            | uplink
            | frozenset(map(key_line_port, network.lines)),
            "static_routes": list_peering_keys(network, "Logical_Router_Static_Route")
            | default
            | list_gateway_keys6(network, "Logical_Router_Static_Route")
            | frozenset[str]().union(*map(list_line_routes, network.lines)),
            "policies": frozenset(map(key_line_policy, network.lines))
            | (frozenset({key_gateway_policy(network)}) if has_gateway else frozenset())
            | frozenset(row.key for row in _compile_drops(network))
            | list_peering_keys(network, "Logical_Router_Policy")
            | list_gateway_keys6(network, "Logical_Router_Policy"),
            "nat": list_nat_keys(network)
            | {key_resolver_nat(network)}
            | list_gateway_keys6(network, "NAT")
            if has_gateway
            else frozenset(),
            "load_balancer": frozenset(row.key for row in _compile_forwards(network, ())),
        },
    )


def _compile_router_port(network: Network, subnet: Subnet) -> NorthboundRow:
    prefixes = [f"{subnet.gateway}/{subnet.cidr.prefixlen}"]
    if has_resolver(network, subnet):
        prefixes.append(f"{ROUTER_ADDRESS}/{RESOLVER_ADDRESSES.prefixlen}")
        if network.has_ipv6:
            prefixes.append(f"{ipv6.ROUTER_ADDRESS}/{ipv6.RESOLVER_PREFIX.prefixlen}")
    if subnet.cidr6 is not None:
        prefixes.append(f"{subnet.gateway6}/{subnet.cidr6.prefixlen}")
    return NorthboundRow(
        "Logical_Router_Port",
        f"router-port/{subnet.key}",
        {
            "name": f"gpupool-router-{subnet.key}",
            "mac": make_router_mac(subnet),
            "networks": tuple(sorted(prefixes)),
            "peer": (),
            **make_advertisements(network, subnet),
        },
        {"gateway_chassis": frozenset()},
    )


def _compile_switch(
    network: Network, subnet: Subnet, ports: Iterable[Port | ProxyPort]
) -> NorthboundRow:
    ours = _keys("port", (port.key for port in ports))
    if has_resolver(network, subnet):
        ours |= {key_resolver(network)}
        ours |= {key_drill_port(network)} if network.drill is not None else set()
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


def _compile_port(
    subnet: Subnet, port: Port | ProxyPort, mac: str, *forwarded: str
) -> NorthboundRow:
    """Compile a port.

    Args:
        forwarded: prefixes whose packets it sends and receives besides its own.
    """
    address = f"{mac} {port.address}"
    if port.address6 is not None:
        address += f" {port.address6}"
    # A guest asks for its address; of other jobs the agent sets it, and their flows would be for nothing.
    has_guest = isinstance(port, Port) and port.named_mac != ""
    return NorthboundRow(
        "Logical_Switch_Port",
        f"port/{port.key}",
        {
            "name": name_port(port.key),
            "addresses": (address,),
            "port_security": (" ".join((address, *forwarded)),),
        },
        {
            "dhcpv4_options": frozenset({f"dhcp/{subnet.key}"} if has_guest else ()),
            **reference_dhcp(subnet),
        },
    )


def _keys(kind: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{kind}/{name}" for name in names)
