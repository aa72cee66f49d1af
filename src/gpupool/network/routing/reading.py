"""Reads static routes for the engine, and the effective route table for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

import sqlalchemy as sa

from gpupool.network.model import Network
from gpupool.network.routing.model import StaticRoute
from gpupool.network.routing.route_table import TableRoute, build_table
from gpupool.network.routing.tables import network_routes
from gpupool.network.tables import subnets
from gpupool.wire.network.routes import RouteOut


def read_routes(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[StaticRoute]]:
    """Read the static routes of networks, or of all of them, by the network's row id."""
    query = (
        sa.select(network_routes, subnets.c.public_id.label("subnet"))
        .outerjoin(subnets, subnets.c.id == network_routes.c.subnet_id)
        .order_by(network_routes.c.id)
    )
    if network_ids is not None:
        query = query.where(network_routes.c.network_id.in_(network_ids))
    found: dict[int, list[StaticRoute]] = defaultdict(list)
    for row in connection.execute(query):
        route = StaticRoute(
            row.public_id,
            ip_network(row.prefix),
            None if row.via is None else ip_address(row.via),
            row.subnet,
            tuple(map(ip_network, row.forwards)),
        )
        found[row.network_id].append(route)
    return found


def describe_table(network: Network) -> list[RouteOut]:
    """Describe the effective table of a network, by prefix."""
    table = build_table(network)
    return [_describe_route(network, route, table) for route in table]


def _describe_route(network: Network, route: TableRoute, table: Sequence[TableRoute]) -> RouteOut:
    names = {subnet.key: subnet.name for subnet in network.subnets}
    forwards = {one.key: one.forwards for one in network.routes}
    return RouteOut(
        id=route.key,
        network=network.name,
        prefix=str(route.prefix),
        kind=route.kind,
        via=None if route.via is None else str(route.via),
        is_discarding=route.is_discard,
        subnet=None if route.subnet is None else names[route.subnet],
        forwards=[str(prefix) for prefix in forwards.get(route.key, ())],
        is_active=route.is_active,
        reason=_explain(network, route, table),
    )


def _explain(network: Network, route: TableRoute, table: Sequence[TableRoute]) -> str:
    """Explain a route that is not in force, or whose next hop is not there."""
    if not route.is_active:
        winner = next(
            one for one in table if (one.prefix, one.subnet) == (route.prefix, route.subnet)
        )
        return f"{winner.kind} {winner.key} has the same prefix"
    addresses = {one for port in network.ports for one in (port.address, port.address6)}
    if route.kind == "static" and route.via is not None and route.via not in addresses:
        return f"no job has {route.via} now: packets are lost"
    return ""
