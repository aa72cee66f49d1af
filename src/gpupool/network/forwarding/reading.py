"""Reads port forwards for the engine and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse
from gpupool.network.forwarding.model import PortForward
from gpupool.network.forwarding.tables import port_forwards
from gpupool.network.ipv6.gateways import list_networks6
from gpupool.network.model import make_gateway
from gpupool.network.tables import networks
from gpupool.wire.network.networks import ForwardWork
from gpupool.wire.network.port_forwards import PortForwardOut


def read_forwards(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[PortForward]]:
    """Read the forwards of networks, or of all of them, by the network's row id."""
    query = sa.select(port_forwards).order_by(port_forwards.c.id)
    if network_ids is not None:
        query = query.where(port_forwards.c.network_id.in_(network_ids))
    found: dict[int, list[PortForward]] = defaultdict(list)
    for row in connection.execute(query):
        forward = PortForward(row.public_id, row.protocol, row.port, row.target, row.target_port)
        found[row.network_id].append(forward)
    return found


def read_forward_work(connection: sa.Connection, uplink: IPv4Network | None) -> list[ForwardWork]:
    """Read what the machine of the pool translates; nothing while it has no uplink."""
    if uplink is None:
        return []
    query = (
        sa.select(port_forwards, networks.c.gateway_number)
        .join(networks, networks.c.id == port_forwards.c.network_id)
        .where(networks.c.has_gateway)
        .order_by(port_forwards.c.protocol, port_forwards.c.port)
    )
    networks6 = list_networks6(connection)
    work = list[ForwardWork]()
    for row in connection.execute(query):
        has_ipv6 = row.network_id in networks6
        gateway = make_gateway(row.gateway_number, uplink, has_ipv6=has_ipv6)
        address6 = None if gateway.address6 is None else str(gateway.address6)
        work.append(
            ForwardWork(
                protocol=row.protocol,
                port=row.port,
                gateway=str(gateway.address),
                gateway6=address6,
            )
        )
    return work


def describe_forwards(connection: sa.Connection, network: Any) -> list[PortForwardOut]:
    """Describe the forwards of a network, by port."""
    query = (
        sa.select(port_forwards)
        .where(port_forwards.c.network_id == network.id)
        .order_by(port_forwards.c.port, port_forwards.c.protocol)
    )
    return [
        PortForwardOut(
            id=row.public_id,
            network=network.name,
            protocol=row.protocol,
            port=row.port,
            target=row.target,
            target_port=row.target_port,
            created_ns=row.created_ns,
        )
        for row in connection.execute(query)
    ]


def refuse_forwarded(connection: sa.Connection, row: Any) -> None:
    """Raise StillInUse while ports are forwarded through the gateway of a network."""
    forwards = describe_forwards(connection, row)
    if forwards:
        ports = ", ".join(str(one.port) for one in forwards[:5])
        raise StillInUse(
            f"ports are forwarded through the gateway of {row.name}: {ports}",
            hint=f"gpupool network forward-list {row.name}",
        )
