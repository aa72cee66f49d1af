"""Reads load balancers for the engine and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.balancing.proxy_reading import (
    describe_proxy,
    list_members,
    make_proxy_port,
    read_proxies,
)
from gpupool.network.balancing.proxy_states import ProxyStates
from gpupool.network.balancing.tables import load_balancers
from gpupool.network.tables import network_ports, subnets
from gpupool.wire.network.load_balancers import LoadBalancerOut, LoadBalancerPartOut


def read_balancers(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[LoadBalancer]]:
    """Read the load balancers of networks, or of all of them, by the network's row id."""
    query = sa.select(load_balancers).order_by(load_balancers.c.id)
    if network_ids is not None:
        query = query.where(load_balancers.c.network_id.in_(network_ids))
    proxies = {row.balancer_id: row for row in read_proxies(connection, network_ids)}
    found: dict[int, list[LoadBalancer]] = defaultdict(list)
    for row in connection.execute(query):
        proxy = proxies.get(row.id)
        port = None if proxy is None else make_proxy_port(proxy)
        found[row.network_id].append(_make_balancer(row, port))
    return found


def describe_balancers(
    connection: sa.Connection, network: Any, states: ProxyStates
) -> list[LoadBalancerOut]:
    """Describe the load balancers of a network, by name."""
    proxies = {row.balancer_id: row for row in read_proxies(connection, [network.id])}
    ports = connection.execute(
        sa.select(network_ports.c.name, network_ports.c.address, network_ports.c.address6)
        .where(network_ports.c.network_id == network.id)
        .order_by(network_ports.c.id)
    ).all()
    has_ipv6 = _has_ipv6(connection, network.id)
    query = sa.select(load_balancers).where(load_balancers.c.network_id == network.id)
    found = list[LoadBalancerOut]()
    for row in connection.execute(query.order_by(load_balancers.c.name)):
        proxy = proxies.get(row.id)
        balancer = _make_balancer(row, None if proxy is None else make_proxy_port(proxy))
        if proxy is None:
            parts = [port for port in ports if balancer.has_backend(port.name)]
        else:
            parts = [port for port, _ in list_members(connection, proxy)]
        found.append(
            LoadBalancerOut(
                id=row.public_id,
                name=row.name,
                network=network.name,
                address=str(balancer.address),
                protocol=row.protocol,
                port=row.port,
                target_port=row.target_port,
                backends=row.backends,
                is_checked=row.is_checked,
                members=[
                    LoadBalancerPartOut(
                        dns_name=port.name, address=port.address, address6=port.address6
                    )
                    for port in parts
                ],
                http=None if proxy is None else describe_proxy(connection, proxy, states),
                created_ns=row.created_ns,
                address6=str(balancer.address6) if has_ipv6 and balancer.address6 else None,
            )
        )
    return found


def _has_ipv6(connection: sa.Connection, network_id: int) -> bool:
    query = sa.select(subnets.c.id).where(
        subnets.c.network_id == network_id, subnets.c.cidr6.is_not(None)
    )
    return connection.execute(query.limit(1)).scalar() is not None


def _make_balancer(row: Any, proxy: ProxyPort | None = None) -> LoadBalancer:
    return LoadBalancer(
        row.id,
        row.public_id,
        row.name,
        row.protocol,
        row.port,
        row.target_port,
        tuple(row.backends),
        row.is_checked,
        proxy,
    )
