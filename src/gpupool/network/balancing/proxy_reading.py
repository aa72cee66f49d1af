"""Reads the proxies of load balancers: for the compiler of networks, for agents and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.addresses import find_gateway, find_offset
from gpupool.network.balancing.model import has_name
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.proxy_states import (
    ProxyStates,
    describe_machines,
    find_server,
    find_serving,
)
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.ipv6.gateways import list_outside6
from gpupool.network.model import make_proxy_mac
from gpupool.network.tables import network_ports, networks, subnets
from gpupool.wire.network.load_balancers import HttpBalancerOut, HttpRouteOut, ProxyMemberOut
from gpupool.wire.network.networks import PortWork, ProxyRouteWork, ProxyServerWork, ProxyWork

#: Everything of a proxy with its balancer, subnet and network.
_PROXIES = (
    sa.select(
        http_balancers,
        load_balancers.c.network_id,
        load_balancers.c.name,
        load_balancers.c.port,
        load_balancers.c.target_port,
        load_balancers.c.backends,
        subnets.c.public_id.label("subnet"),
        subnets.c.cidr,
        subnets.c.cidr6,
        networks.c.public_id.label("network"),
        networks.c.mtu,
        networks.c.zone,
    )
    .join(load_balancers, load_balancers.c.id == http_balancers.c.balancer_id)
    .join(subnets, subnets.c.id == http_balancers.c.subnet_id)
    .join(networks, networks.c.id == load_balancers.c.network_id)
    .order_by(http_balancers.c.balancer_id)
)


def read_proxies(connection: sa.Connection, network_ids: Sequence[int] | None) -> list[Any]:
    """Read the rows of the proxies of networks, or of all of them."""
    query = _PROXIES
    if network_ids is not None:
        query = query.where(load_balancers.c.network_id.in_(network_ids))
    return list(connection.execute(query).all())


def make_proxy_port(row: Any) -> ProxyPort:
    """Make the value of a row of `read_proxies`."""
    more = () if row.https_port is None else (row.https_port,)
    listeners = (row.port, *more)
    standby = None
    if row.standby_id is not None:
        address = IPv4Address(row.standby_address)
        standby = ProxyPort(
            row.standby_id,
            row.balancer_id,
            row.subnet,
            address,
            listeners,
            _find_address6(row, address),
            is_standby=True,
        )
    address = IPv4Address(row.address)
    address6 = _find_address6(row, address)
    return ProxyPort(
        row.public_id, row.balancer_id, row.subnet, address, listeners, address6, standby
    )


def _find_address6(row: Any, address: IPv4Address) -> IPv6Address | None:
    if row.cidr6 is None:
        return None
    offset = find_offset(IPv4Network(row.cidr), address)
    return ipv6.find_proxy_address(IPv6Network(row.cidr6), offset)


def has_proxies(connection: sa.Connection, network_id: int) -> bool:
    """Whether some load balancer of a network is of HTTP."""
    query = (
        sa.select(http_balancers.c.balancer_id)
        .join(load_balancers, load_balancers.c.id == http_balancers.c.balancer_id)
        .where(load_balancers.c.network_id == network_id)
        .limit(1)
    )
    return connection.execute(query).first() is not None


def read_proxy_work(connection: sa.Connection, *, is_second: bool = False) -> list[ProxyWork]:
    """Read what an agent runs.

    Args:
        is_second: whether it is on the second machine of a pair.
    """
    rows = read_proxies(connection, None)
    ports = _read_ports(connection, {row.network_id for row in rows})
    outside6 = list_outside6(connection)
    found = list[ProxyWork]()
    for row in rows:
        first = make_proxy_port(row)
        proxy = first.standby if is_second else first
        if proxy is None:
            continue
        cidr = IPv4Network(row.cidr)
        address6 = proxy.address6
        port = PortWork(
            id=proxy.key,
            network=row.network,
            address=str(proxy.address),
            prefix=cidr.prefixlen,
            gateway=str(find_gateway(cidr)),
            mac=make_proxy_mac(row.balancer_id, is_standby=proxy.is_standby),
            mtu=row.mtu,
            domain="",
            dns_name=row.name,
            zone=row.zone,
            address6=None if address6 is None else str(address6),
            gateway6=None if address6 is None else str(ipv6.find_gateway(IPv6Network(row.cidr6))),
            has_outside6=address6 is not None and row.network_id in outside6,
        )
        routes = [_make_route(route, row, ports[row.network_id]) for route in list_routes(row)]
        found.append(
            ProxyWork(
                port=port,
                listen_port=row.port,
                https_port=row.https_port,
                certificate=row.certificate,
                redirects=row.redirects,
                is_sticky=row.is_sticky,
                check_path=row.check_path,
                drain_seconds=row.drain_seconds,
                routes=routes,
                is_paired=first.standby is not None,
            )
        )
    return found


def list_routes(row: Any) -> list[HttpRouteOut]:
    """List the routes of a proxy; the balancer's own backends answer what no other route takes."""
    routes = [HttpRouteOut.model_validate(route) for route in row.routes]
    if row.backends:
        routes.append(
            HttpRouteOut(host=None, path="/", backends=row.backends, target_port=row.target_port)
        )
    return routes


def describe_proxy(connection: sa.Connection, row: Any, states: ProxyStates) -> HttpBalancerOut:
    """Describe a proxy, a row of `read_proxies`, with what the agent reported of it."""
    proxy = make_proxy_port(row)
    keys = [proxy.key] if proxy.standby is None else [proxy.key, proxy.standby.key]
    found = [states.find(key) for key in keys]
    serving = find_serving(found)
    report = None if serving is None else serving.report
    members = list[ProxyMemberOut]()
    for port, target in list_members(connection, row):
        seen = None if report is None else find_server(report, port.public_id)
        counts = [find_server(one.report, port.public_id) for one in found if one is not None]
        state = "unknown" if seen is None else seen.state
        members.append(
            ProxyMemberOut(
                dns_name=port.name,
                address=port.address,
                port=target,
                state="draining" if port.public_id in row.draining else state,
                check="" if seen is None else seen.check,
                sessions=sum(one.sessions for one in counts if one is not None),
                requests=sum(one.requests for one in counts if one is not None),
            )
        )
    return HttpBalancerOut(
        state="starting" if report is None else report.state,
        reason="" if report is None else report.reason,
        address=row.address,
        https_port=row.https_port,
        routes=list_routes(row),
        redirects=row.redirects,
        is_sticky=row.is_sticky,
        check_path=row.check_path,
        drain_seconds=row.drain_seconds,
        certificate_end_ns=row.certificate_end_ns,
        members=members,
        machines=describe_machines(found),
    )


def list_members(connection: sa.Connection, row: Any) -> list[tuple[Any, int]]:
    """List the ports of jobs behind a proxy, each once, with the port on which the job serves."""
    ports = _read_ports(connection, {row.network_id})[row.network_id]
    found = dict[str, tuple[Any, int]]()
    for route in list_routes(row):
        for port in ports:
            if has_name(route.backends, port.name):
                found.setdefault(port.public_id, (port, route.target_port))
    return list(found.values())


def _make_route(route: HttpRouteOut, row: Any, ports: Sequence[Any]) -> ProxyRouteWork:
    servers = [
        ProxyServerWork(
            id=port.public_id,
            address=port.address,
            port=route.target_port,
            is_draining=port.public_id in row.draining,
        )
        for port in ports
        if has_name(route.backends, port.name)
    ]
    return ProxyRouteWork(host=route.host, path=route.path, servers=servers)


def _read_ports(connection: sa.Connection, network_ids: Collection[int]) -> dict[int, list[Any]]:
    query = (
        sa.select(network_ports)
        .where(network_ports.c.network_id.in_(network_ids))
        .order_by(network_ports.c.id)
    )
    found: dict[int, list[Any]] = defaultdict(list)
    for port in connection.execute(query):
        found[port.network_id].append(port)
    return found
