"""Reads port forwards for the engine and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.forwarding.model import PortForward
from gpupool.network.forwarding.tables import port_forwards
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
        sa.select(port_forwards)
        .join(networks, networks.c.id == port_forwards.c.network_id)
        .where(networks.c.has_gateway)
        .order_by(port_forwards.c.protocol, port_forwards.c.port)
    )
    return [
        ForwardWork(
            protocol=row.protocol,
            port=row.port,
            gateway=str(make_gateway(row.network_id, uplink).address),
        )
        for row in connection.execute(query)
    ]


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
