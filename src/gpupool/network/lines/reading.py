"""Reads dedicated lines for the compiler, for tenants, and for the agent that runs speakers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.lines.model import Line
from gpupool.network.lines.tables import network_lines
from gpupool.network.tables import networks, subnets
from gpupool.wire.network.lines import LineOut, LineRefusal, LineWork


def read_lines(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[Line]]:
    """Read the lines of networks, or of all of them, by the network's row id."""
    query = sa.select(network_lines).order_by(network_lines.c.id)
    if network_ids is not None:
        query = query.where(network_lines.c.network_id.in_(network_ids))
    found: dict[int, list[Line]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.network_id].append(make_line(row))
    return found


def make_line(row: Any) -> Line:
    """Make the value of a row of `network_lines`."""
    return Line(
        row.public_id,
        row.vlan,
        IPv4Interface(row.address),
        IPv4Address(row.speaker),
        IPv4Address(row.peer),
        row.mtu,
        row.prefix_limit,
        tuple(map(IPv4Network, row.allowed)),
        tuple(map(IPv4Network, row.learned)),
    )


def list_line_prefixes(connection: sa.Connection, network_id: int) -> list[IPv4Network]:
    """List what the lines of a network use or may use: links and allowed prefixes."""
    found = list[IPv4Network]()
    for line in read_lines(connection, [network_id])[network_id]:
        found += [line.link, *line.allowed]
    return found


def read_line_work(connection: sa.Connection) -> list[LineWork]:
    """Read the lines whose speakers the agent of the engine runs."""
    found = list[LineWork]()
    for row in connection.execute(sa.select(network_lines).order_by(network_lines.c.id)):
        line = make_line(row)
        found.append(
            LineWork(
                id=line.key,
                speaker=row.speaker,
                prefix=line.link.prefixlen,
                router=str(line.address.ip),
                mac=line.speaker_mac,
                peer=row.peer,
                asn=row.asn,
                peer_asn=row.peer_asn,
                key=row.secret_key,
                bfd=row.bfd,
                mtu=row.mtu,
                prefix_limit=row.prefix_limit,
                allowed=row.allowed,
                announced=_list_announced(connection, row),
            )
        )
    return found


def describe_lines(connection: sa.Connection, network: Any) -> list[LineOut]:
    """Describe the lines of a network, by VLAN. The key is left out."""
    query = (
        sa.select(network_lines)
        .where(network_lines.c.network_id == network.id)
        .order_by(network_lines.c.vlan)
    )
    found = list[LineOut]()
    for row in connection.execute(query).all():
        routes = make_line(row).list_routes()
        found.append(
            LineOut(
                id=row.public_id,
                network=network.name,
                vlan=row.vlan,
                address=row.address,
                speaker=row.speaker,
                peer=row.peer,
                asn=row.asn,
                peer_asn=row.peer_asn,
                has_key=row.secret_key is not None,
                bfd=row.bfd,
                mtu=row.mtu,
                prefix_limit=row.prefix_limit,
                allowed=row.allowed,
                announced=_list_announced(connection, row),
                state=row.state,
                reason=row.reason,
                learned=[str(prefix) for prefix in routes],
                refused=[LineRefusal(**one) for one in row.refused],
                refused_count=row.refused_count,
                created_ns=row.created_ns,
            )
        )
    return found


def _list_announced(connection: sa.Connection, row: Any) -> list[str]:
    """List what the peer learns: subnets that are still there, all or those that were named."""
    query = (
        sa.select(subnets.c.cidr)
        .join(networks, networks.c.id == subnets.c.network_id)
        .where(networks.c.id == row.network_id)
        .order_by(subnets.c.id)
    )
    present = connection.execute(query).scalars()
    return [cidr for cidr in present if row.announced is None or cidr in row.announced]
