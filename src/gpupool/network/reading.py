"""Reads networks from the pool's database, as values that the compiler and the views take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.addresses import find_gateway
from gpupool.network.balancing.reading import read_balancers
from gpupool.network.floating.reading import read_floating
from gpupool.network.flows.reading import read_logged
from gpupool.network.forwarding.reading import read_forwards
from gpupool.network.gateways.reading import read_drill_ports, read_pair_row
from gpupool.network.ipv6.gateways import list_networks6
from gpupool.network.limiting.model import NetworkLimits
from gpupool.network.limiting.reading import read_limits
from gpupool.network.lines.reading import read_lines
from gpupool.network.model import (
    Gateway,
    Network,
    PeeringEnd,
    Port,
    Subnet,
    make_domain,
    make_gateway,
)
from gpupool.network.naming.reading import read_records
from gpupool.network.routing.peered_prefixes import ACCEPTED, is_agreed
from gpupool.network.routing.reading import read_routes
from gpupool.network.security.reading import read_groups, read_members
from gpupool.network.tables import (
    network_engine,
    network_peerings,
    network_ports,
    networks,
    subnets,
)

Row = sa.Row[Any]


def read_networks(
    connection: sa.Connection, keys: Collection[str] | None = None
) -> dict[str, Network]:
    """Read networks with all that is in them, by public id.

    Args:
        keys: public ids; None reads every network. Those that do not exist are left out.
    """
    query = sa.select(networks).order_by(networks.c.id)
    if keys is not None:
        query = query.where(networks.c.public_id.in_(keys))
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    parts = _read_subnets(connection, None if keys is None else ids)
    limits = read_limits(connection, None if keys is None else ids)
    ports = _read_ports(connection, None if keys is None else ids, limits)
    ends = _read_peerings(connection, rows, parts)
    groups = read_groups(connection, None if keys is None else ids)
    balancers = read_balancers(connection, None if keys is None else ids)
    forwards = read_forwards(connection, None if keys is None else ids)
    records = read_records(connection, None if keys is None else ids)
    lines = read_lines(connection, None if keys is None else ids)
    routes = read_routes(connection, None if keys is None else ids)
    logged = read_logged(connection, None if keys is None else ids)
    uplink = read_uplink(connection)
    floating = read_floating(connection, None if keys is None else ids, uplink)
    is_paired = read_pair_row(connection) is not None
    drills = read_drill_ports(connection)
    networks6 = list_networks6(connection)
    found = dict[str, Network]()
    for row in rows:
        found[row.public_id] = Network(
            row.public_id,
            row.name,
            make_domain(row.name),
            row.mtu,
            tuple(parts[row.id]),
            tuple(ports[row.id]),
            tuple(ends[row.id]),
            row.id,
            _make_gateway(row, uplink, limits[row.id], is_paired, row.id in networks6),
            tuple(groups[row.id]),
            tuple(balancers[row.id]),
            tuple(forwards[row.id]),
            tuple(records[row.id]),
            tuple(lines[row.id]),
            routes=tuple(routes[row.id]),
            logged=logged[row.id],
            drill=drills.get(row.id),
            floating_ips=tuple(floating[row.id]),
        )
    return found


def _make_gateway(
    row: Row, uplink: IPv4Network | None, limits: NetworkLimits, is_paired: bool, has_ipv6: bool
) -> Gateway | None:
    if not row.has_gateway or uplink is None:
        return None
    made = make_gateway(row.gateway_number, uplink, has_ipv6=has_ipv6)
    return replace(made, bandwidth=limits.find_gateway(), is_paired=is_paired)


def read_uplink(connection: sa.Connection) -> IPv4Network | None:
    """Read the prefix of the machine's uplink; None while there is none."""
    text = connection.execute(sa.select(network_engine.c.uplink)).scalar_one_or_none()
    return IPv4Network(text) if text else None


def make_subnet(row: Row) -> Subnet:
    """Make the value of a row of `subnets`."""
    cidr = IPv4Network(row.cidr)
    probe = None if row.probe_address is None else IPv4Address(row.probe_address)
    cidr6 = None if row.cidr6 is None else IPv6Network(row.cidr6)
    return Subnet(row.id, row.public_id, row.name, cidr, find_gateway(cidr), probe, cidr6)


def _read_subnets(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[Subnet]]:
    query = sa.select(subnets).order_by(subnets.c.id)
    if network_ids is not None:
        query = query.where(subnets.c.network_id.in_(network_ids))
    found: dict[int, list[Subnet]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.network_id].append(make_subnet(row))
    return found


def _read_ports(
    connection: sa.Connection,
    network_ids: Sequence[int] | None,
    limits: Mapping[int, NetworkLimits],
) -> dict[int, list[Port]]:
    query = (
        sa.select(network_ports, subnets.c.public_id.label("subnet"))
        .join(subnets, subnets.c.id == network_ports.c.subnet_id)
        .order_by(network_ports.c.id)
    )
    if network_ids is not None:
        query = query.where(network_ports.c.network_id.in_(network_ids))
    members = read_members(connection, network_ids)
    found: dict[int, list[Port]] = defaultdict(list)
    for row in connection.execute(query):
        port = Port(
            row.id,
            row.public_id,
            row.subnet,
            IPv4Address(row.address),
            row.name,
            tuple(key for key, _ in members[row.id]),
            limits[row.network_id].find_port(row.name),
            row.mac or "",
            None if row.address6 is None else IPv6Address(row.address6),
        )
        found[row.network_id].append(port)
    return found


def _read_peerings(
    connection: sa.Connection, rows: Sequence[Row], parts: Mapping[int, Sequence[Subnet]]
) -> dict[int, list[PeeringEnd]]:
    """Read the accepted peerings of networks, each as one end or as both.

    Args:
        parts: the subnets of these networks, by the network's row id.
    """
    found: dict[int, list[PeeringEnd]] = defaultdict(list)
    wanted = {row.id for row in rows}
    for row in connection.execute(ACCEPTED.order_by(network_peerings.c.id)):
        for mine, other in (
            (row.requester_id, row.accepter_id),
            (row.accepter_id, row.requester_id),
        ):
            if mine not in wanted:
                continue
            theirs = _read_subnets(connection, [other])[other]
            prefixes = [subnet for subnet in theirs if is_agreed(row, subnet.key)]
            hidden = [subnet for subnet in parts[mine] if not is_agreed(row, subnet.key)]
            # Without IPv6 on both sides no answer would come back.
            has_ipv6 = any(subnet.cidr6 is not None for subnet in parts[mine])
            prefixes6 = _list_prefixes6(prefixes) if has_ipv6 else ()
            found[mine].append(
                PeeringEnd(
                    row.id,
                    row.public_id,
                    mine == row.requester_id,
                    tuple(subnet.cidr for subnet in prefixes),
                    prefixes6,
                    row.link,
                    (*(subnet.cidr for subnet in hidden), *_list_prefixes6(hidden)),
                )
            )
    return found


def _list_prefixes6(parts: Sequence[Subnet]) -> tuple[IPv6Network, ...]:
    return tuple(subnet.cidr6 for subnet in parts if subnet.cidr6 is not None)
