"""The two networks that are made for a verification: the same addresses, and no owner."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.addresses import find_gateway
from gpupool.network.model import DEFAULT_MTU, Network, Port, Subnet
from gpupool.network.tables import networks
from gpupool.network.verification.tables import network_verifications

#: Row ids from here on are of no table, so the MAC addresses made of them are free.
_FIRST_ID = 1 << 39


def read_twins(
    connection: sa.Connection, keys: Collection[str] | None = None, zone: int | None = None
) -> dict[str, Network]:
    """Read the networks of verifications that run, by key.

    Args:
        zone: of those alone; None: of all zones.
    """
    query = sa.select(network_verifications).where(network_verifications.c.state == "running")
    if zone is not None:
        query = query.outerjoin(networks, networks.c.id == network_verifications.c.network_id)
        query = query.where(sa.func.coalesce(networks.c.zone, 0) == zone)
    found = dict[str, Network]()
    for row in connection.execute(query):
        for twin in make_twins(row):
            if keys is None or twin.key in keys:
                found[twin.key] = twin
    return found


def make_twins(row: Any) -> tuple[Network, Network]:
    """Make the two networks of a row of `network_verifications`.

    The first has two ports, the second one with the address of the second of them.
    """
    prefixes = (IPv4Network(row.cidr), None if row.cidr6 is None else IPv6Network(row.cidr6))
    sender, control, outsider = row.ports
    first = _make_network(row, 0, prefixes, {sender: 2, control: 3})
    return first, _make_network(row, 1, prefixes, {outsider: 3})


def _make_network(
    row: Any,
    index: int,
    prefixes: tuple[IPv4Network, IPv6Network | None],
    offsets: dict[str, int],
) -> Network:
    cidr, cidr6 = prefixes
    number = _FIRST_ID + 8 * row.id + 4 * index
    key = f"{row.public_id}-{index}"
    subnet = Subnet(number, key, "probe", cidr, find_gateway(cidr), cidr6=cidr6)
    ports = tuple(
        Port(
            number + place,
            port,
            key,
            cidr[offset],
            f"probe-{place}",
            address6=None if cidr6 is None else cidr6[offset],
        )
        for place, (port, offset) in enumerate(offsets.items())
    )
    return Network(key, key, f"{key}.invalid", DEFAULT_MTU, (subnet,), ports)
