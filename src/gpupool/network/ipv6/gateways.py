"""Reads which gateways carry IPv6. Everything runs in the caller's transaction."""

from __future__ import annotations

from ipaddress import ip_network

import sqlalchemy as sa

from gpupool.network.ipv6.addresses import is_outside
from gpupool.network.routing.tables import network_routes
from gpupool.network.tables import network_engine, networks, subnets


def list_networks6(connection: sa.Connection) -> frozenset[int]:
    """List the row ids of the networks whose gateways carry IPv6: those that have IPv6 themselves.

    None while no admin wants it: rules of the boundary about IPv4 do not hold for IPv6
    (docs/decisions/0093-ipv6-outside.md).
    """
    is_wanted = sa.exists().where(network_engine.c.gateway_ipv6)
    query = (
        sa.select(networks.c.id)
        .distinct()
        .join(subnets, subnets.c.network_id == networks.c.id)
        .where(networks.c.has_gateway, subnets.c.cidr6.is_not(None), is_wanted)
    )
    return frozenset(connection.execute(query).scalars())


def list_outside6(connection: sa.Connection) -> frozenset[int]:
    """List the row ids of the networks that lead IPv6 out of unique local addresses.

    By their gateway, or by a static route to a job.
    """
    query = sa.select(network_routes.c.network_id, network_routes.c.prefix)
    routed = {
        row.network_id
        for row in connection.execute(query.where(network_routes.c.prefix.contains(":")))
        if is_outside(ip_network(row.prefix))
    }
    return list_networks6(connection) | routed
