"""Reads dedicated lines for the compiler, for tenants, and for the agent that runs speakers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.lines.model import Line
from gpupool.network.lines.tables import line_translations, network_lines
from gpupool.network.lines.translation import Translation, see_outside
from gpupool.network.tables import networks, subnets
from gpupool.store.secrets.vault import SecretVault
from gpupool.wire.network.lines import LineOut, LineRefusal, LineTranslation, LineWork


def read_lines(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[Line]]:
    """Read the lines of networks, or of all of them, by the network's row id."""
    query = sa.select(network_lines).order_by(network_lines.c.id)
    if network_ids is not None:
        query = query.where(network_lines.c.network_id.in_(network_ids))
    found: dict[int, list[Line]] = defaultdict(list)
    translations = _read_translations(connection)
    for row in connection.execute(query):
        found[row.network_id].append(make_line(row, translations[row.id]))
    return found


def _read_translations(connection: sa.Connection) -> dict[int, list[Any]]:
    """Read the rows of translations, by the line's row id. Few lines have some."""
    found: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(sa.select(line_translations).order_by(line_translations.c.id)):
        found[row.line_id].append(row)
    return found


def _make_translations(rows: Sequence[Any], *, is_peer: bool) -> tuple[Translation, ...]:
    return tuple(
        Translation(IPv4Network(row.inside), IPv4Network(row.outside))
        for row in rows
        if row.is_peer == is_peer
    )


def make_line(row: Any, translations: Sequence[Any]) -> Line:
    """Make the value of a row of `network_lines` with those of its translations."""
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
        _make_translations(translations, is_peer=False),
        _make_translations(translations, is_peer=True),
    )


def list_line_prefixes(connection: sa.Connection, network_id: int) -> list[IPv4Network]:
    """List what the lines of a network use or may use: links, and prefixes as jobs see them.

    Also how the company sees the network: no other subnet may be there for it.
    """
    found = list[IPv4Network]()
    for line in read_lines(connection, [network_id])[network_id]:
        found += [line.link, *line.seen_allowed, *(one.outside for one in line.translations)]
    return found


def read_line_work(connection: sa.Connection, secrets: SecretVault) -> list[LineWork]:
    """Read the lines whose speakers the agent of the engine runs. Raises `SECRET_ERRORS`."""
    found = list[LineWork]()
    translations = _read_translations(connection)
    for row in connection.execute(sa.select(network_lines).order_by(network_lines.c.id)):
        line = make_line(row, translations[row.id])
        key = secrets.decrypt(network_lines.c.secret_key, row.public_id, row.secret_key)
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
                key=key or None,
                bfd=row.bfd,
                mtu=row.mtu,
                prefix_limit=row.prefix_limit,
                allowed=row.allowed,
                announced=_list_announced(connection, row, line),
                ours=_list_ours(connection, row, line) if line.is_translated else [],
                theirs=_list_theirs(line) if line.is_translated else [],
            )
        )
    return found


def _list_ours(connection: sa.Connection, row: Any, line: Line) -> list[LineTranslation]:
    """List the subnets of a line's network on both sides, also those that stay as they are."""
    query = sa.select(subnets.c.cidr).where(subnets.c.network_id == row.network_id)
    return [
        LineTranslation(inside=cidr, outside=str(see_outside(IPv4Network(cidr), line.translations)))
        for cidr in connection.execute(query.order_by(subnets.c.id)).scalars()
    ]


def _list_theirs(line: Line) -> list[LineTranslation]:
    pairs = zip(line.seen_allowed, line.allowed, strict=True)
    return [LineTranslation(inside=str(seen), outside=str(real)) for seen, real in pairs]


def _describe_translations(translations: Sequence[Translation]) -> list[LineTranslation]:
    return [
        LineTranslation(inside=str(one.inside), outside=str(one.outside)) for one in translations
    ]


def describe_lines(connection: sa.Connection, network: Any) -> list[LineOut]:
    """Describe the lines of a network, by VLAN. The key is left out."""
    query = (
        sa.select(network_lines)
        .where(network_lines.c.network_id == network.id)
        .order_by(network_lines.c.vlan)
    )
    found = list[LineOut]()
    translations = _read_translations(connection)
    for row in connection.execute(query).all():
        line = make_line(row, translations[row.id])
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
                announced=_list_announced(connection, row, line),
                state=row.state,
                reason=row.reason,
                learned=[str(prefix) for prefix in line.list_learned()],
                translations=_describe_translations(line.translations),
                peer_translations=_describe_translations(line.peer_translations),
                refused=[LineRefusal(**one) for one in row.refused],
                refused_count=row.refused_count,
                created_ns=row.created_ns,
            )
        )
    return found


def _list_announced(connection: sa.Connection, row: Any, line: Line) -> list[str]:
    """List what the peer learns: subnets that are still there, all or those that were named.

    It learns them as the company sees them.
    """
    query = (
        sa.select(subnets.c.cidr)
        .join(networks, networks.c.id == subnets.c.network_id)
        .where(networks.c.id == row.network_id)
        .order_by(subnets.c.id)
    )
    present = connection.execute(query).scalars()
    wanted = [cidr for cidr in present if row.announced is None or cidr in row.announced]
    return [str(see_outside(IPv4Network(cidr), line.translations)) for cidr in wanted]
