"""Reads the proxies of load balancers: for the compiler of networks, for agents and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.addresses import find_gateway
from gpupool.network.balancing.model import has_name
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.proxy_tables import http_balancers
from gpupool.network.balancing.tables import load_balancers
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
        networks.c.public_id.label("network"),
        networks.c.mtu,
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
    return ProxyPort(
        row.public_id, row.balancer_id, row.subnet, IPv4Address(row.address), (row.port, *more)
    )


def has_proxies(connection: sa.Connection, network_id: int) -> bool:
    """Whether some load balancer of a network is of HTTP."""
    query = (
        sa.select(http_balancers.c.balancer_id)
        .join(load_balancers, load_balancers.c.id == http_balancers.c.balancer_id)
        .where(load_balancers.c.network_id == network_id)
        .limit(1)
    )
    return connection.execute(query).first() is not None


def read_proxy_work(connection: sa.Connection) -> list[ProxyWork]:
    """Read what the agent runs."""
    rows = read_proxies(connection, None)
    ports = _read_ports(connection, {row.network_id for row in rows})
    found = list[ProxyWork]()
    for row in rows:
        cidr = IPv4Network(row.cidr)
        port = PortWork(
            id=row.public_id,
            network=row.network,
            address=row.address,
            prefix=cidr.prefixlen,
            gateway=str(find_gateway(cidr)),
            mac=make_proxy_mac(row.balancer_id),
            mtu=row.mtu,
            domain="",
            dns_name=row.name,
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
    report = states.get(row.public_id)
    reported = {one.id: one for one in report.servers} if report is not None else {}
    members = list[ProxyMemberOut]()
    for port, target in list_members(connection, row):
        seen = reported.get(port.public_id)
        state = "unknown" if seen is None else seen.state
        members.append(
            ProxyMemberOut(
                dns_name=port.name,
                address=port.address,
                port=target,
                state="draining" if port.public_id in row.draining else state,
                check="" if seen is None else seen.check,
                sessions=0 if seen is None else seen.sessions,
                requests=0 if seen is None else seen.requests,
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
