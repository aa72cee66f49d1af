"""Reads the pair of gateways for the compiler, for agents and for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import TooManyNetworks
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.network.addresses import choose_number
from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.gateways.model import GATEWAY_NUMBERS, MOST_DRILL_SECONDS, GatewayPair
from gpupool.network.gateways.rows import DRILL_ADDRESS, make_drill_mac
from gpupool.network.gateways.tables import (
    network_gateway_drills,
    network_gateway_pair,
    network_gateways,
)
from gpupool.network.machines.database_servers import join_remotes, read_servers
from gpupool.network.machines.service import find_machine, name_chassis
from gpupool.network.resolver_rows import ROUTER_ADDRESS
from gpupool.network.tables import network_engine, networks
from gpupool.wire.network.gateways import (
    GatewayDrillOut,
    GatewayDrillWork,
    GatewayMachineOut,
    GatewayPairOut,
    GatewayWork,
)


def read_pair_row(connection: sa.Connection) -> Any:
    """Return the row of the pair; None where the centre has the gateways."""
    return connection.execute(sa.select(network_gateway_pair)).one_or_none()


def read_members(connection: sa.Connection) -> Sequence[Any]:
    """Read the rows of the pair's machines, the first before the second."""
    query = sa.select(network_gateways).order_by(network_gateways.c.position)
    return connection.execute(query).all()


def list_gateway_agents(connection: sa.Connection, centre: str) -> list[str]:
    """List the agents whose machines have the gateways: those of the pair, else the centre's."""
    if read_pair_row(connection) is None:
        return [centre]
    return [member.agent for member in read_members(connection)]


def read_pair(connection: sa.Connection) -> GatewayPair | None:
    """Read the pair as OVN knows it; None without one, or without an engine."""
    centre = connection.execute(sa.select(network_engine.c.agent)).scalar_one_or_none()
    members = read_members(connection)
    if centre is None or len(members) != 2:
        return None
    first, second = (name_chassis(member.agent, centre) for member in members)
    return GatewayPair((first, second))


def choose_gateway(connection: sa.Connection) -> int:
    """Choose the number of a new gateway on the uplink. Raises TooManyNetworks."""
    query = sa.select(networks.c.gateway_number).where(networks.c.gateway_number.is_not(None))
    taken = set(connection.execute(query).scalars())
    number = choose_number(taken, GATEWAY_NUMBERS)
    if number is None:
        raise TooManyNetworks(
            f"the pool has {len(taken)} gateways, the most that its uplink can carry",
            hint="delete one that no job needs: gpupool network gateway-delete NAME",
            limit=len(taken),
        )
    return number


def read_drill_ports(connection: sa.Connection) -> dict[int, str]:
    """Read the ports of drills that run, by the network's row id."""
    drills = network_gateway_drills.c
    query = sa.select(drills.network_id, drills.port).where(drills.state == "running")
    return {row.network_id: row.port for row in connection.execute(query)}


def read_gateway_work(connection: sa.Connection, agent: str, engine: Any) -> GatewayWork | None:
    """Read what a machine of the pair does; None for any other machine.

    Args:
        engine: the engine's row.
    """
    pair = read_pair_row(connection)
    members = {member.agent: member for member in read_members(connection)}
    if pair is None or agent not in members:
        return None
    mine = members.pop(agent)
    (peer,) = members
    machine = find_machine(connection, peer)
    return GatewayWork(
        address=pair.address,
        upstream=pair.upstream,
        prefix=engine.uplink,
        peer=name_chassis(peer, engine.agent),
        peer_node=peer,
        peer_tunnel="" if machine is None else machine.tunnel,
        northbound=_find_northbound(connection, agent, engine.agent),
        is_first=mine.position == 0,
        is_drained=mine.is_drained,
    )


def _find_northbound(connection: sa.Connection, agent: str, centre: str) -> str:
    """Find where an agent reaches the database over TLS; empty where it is on its own machine."""
    cluster = join_remotes(read_servers(connection), "northbound")
    if cluster or agent == centre:
        return cluster
    machine = find_machine(connection, centre)
    return "" if machine is None else str(machine.northbound)


def read_drill_work(connection: sa.Connection, engine: Any, now_ns: int) -> GatewayDrillWork | None:
    """Read the drill that runs, as the centre does it.

    One that is late has failed, though no caller has asked for it since: an agent that starts hours
    later must not move the gateways.
    """
    pair = read_pair_row(connection)
    query = (
        sa.select(network_gateway_drills, networks.c.mtu)
        .join(networks, networks.c.id == network_gateway_drills.c.network_id)
        .where(
            network_gateway_drills.c.state == "running",
            network_gateway_drills.c.created_ns > now_ns - MOST_DRILL_SECONDS * NANOS_PER_SECOND,
        )
    )
    row = connection.execute(query.order_by(network_gateway_drills.c.id)).first()
    if row is None or pair is None or pair.upstream is None:
        return None
    members = read_members(connection)
    return GatewayDrillWork(
        id=row.public_id,
        port=row.port,
        address=str(DRILL_ADDRESS),
        prefix=RESOLVER_ADDRESSES.prefixlen,
        gateway=str(ROUTER_ADDRESS),
        mac=make_drill_mac(row.network_id),
        mtu=row.mtu,
        target=pair.upstream,
        origin=row.origin,
        northbound=_find_northbound(connection, engine.agent, engine.agent),
        chassis={one.agent: name_chassis(one.agent, engine.agent) for one in members},
    )


def describe_pair(
    connection: sa.Connection, is_silent: Callable[[str], bool]
) -> GatewayPairOut | None:
    """Describe the pair; None where there is none."""
    row = read_pair_row(connection)
    if row is None:
        return None
    machines = list[GatewayMachineOut]()
    for member in read_members(connection):
        silent = is_silent(member.agent)
        machines.append(
            GatewayMachineOut(
                node=member.agent,
                state="silent" if silent else member.state,
                reason="its agent does not answer" if silent else member.reason,
                is_drained=member.is_drained,
                since_ns=member.since_ns,
                balancers=0 if silent else member.balancers,
            )
        )
    return GatewayPairOut(
        address=row.address,
        upstream=row.upstream,
        active=row.active or None,
        active_since_ns=row.moved_ns,
        moved_from=row.moved_from or None,
        move_reason=row.move_reason,
        machines=machines,
    )


def describe_drill(connection: sa.Connection, row: Any) -> GatewayDrillOut:
    """Describe a row of `network_gateway_drills`."""
    query = sa.select(networks.c.name).where(networks.c.id == row.network_id)
    outages = [move["outage_seconds"] for move in row.moves]
    return GatewayDrillOut(
        id=row.public_id,
        network=connection.execute(query).scalar_one(),
        state=row.state,
        reason=row.reason,
        outage_seconds=max(outages, default=None),
        moves=row.moves,
        created_ns=row.created_ns,
        finished_ns=row.finished_ns,
    )
