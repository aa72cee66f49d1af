"""Prefixes of networks that are peered, and the addresses that they may not share.

Everything runs in the caller's transaction.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import sqlalchemy as sa

from gpupool.base.errors import OverlappingSubnets
from gpupool.network.lines.reading import list_line_prefixes
from gpupool.network.tables import network_peerings, networks, subnets

_ACCEPTED = (
    sa.select(network_peerings.c.requester_id, networks.c.id)
    .join(networks, networks.c.public_id == network_peerings.c.accepter)
    .where(network_peerings.c.accepted_ns.is_not(None))
)


def refuse_second_way(
    connection: sa.Connection, network_id: int, cidr: IPv4Network | IPv6Network
) -> None:
    """Raise OverlappingSubnets where a peered network has another way to addresses of a new subnet.

    Else its owner's packets for the other network would go to the owner of this one.
    """
    read = read_prefixes if isinstance(cidr, IPv4Network) else read_prefixes6
    for peer in _list_peers(connection, network_id):
        for other in _list_peers(connection, peer) - {network_id}:
            if any(cidr.overlaps(prefix) for prefix in read(connection, other)):
                # The other network is of an owner who has agreed to tell the peer alone.
                raise OverlappingSubnets(
                    f"{cidr} overlaps a network that a peered network is peered with",
                    hint="take another prefix, or revoke a peering: gpupool network peering-list NAME",
                    clashing=[str(cidr)],
                )


def _list_peers(connection: sa.Connection, network_id: int) -> set[int]:
    """List the row ids of the networks that a network is peered with."""
    ends = sa.or_(network_peerings.c.requester_id == network_id, networks.c.id == network_id)
    found = set[int]()
    for row in connection.execute(_ACCEPTED.where(ends)):
        found |= {row.requester_id, row.id}
    return found - {network_id}


def refuse_overlap(connection: sa.Connection, one: int, other: int) -> None:
    """Raise OverlappingSubnets where two networks that are to be peered share addresses."""
    clashing = list[str]()
    # Neither network's packets for a dedicated line may go through the peering.
    theirs = read_prefixes(connection, other) + list_line_prefixes(connection, other)
    for prefix in read_prefixes(connection, one) + list_line_prefixes(connection, one):
        clashing += [f"{prefix} and {each}" for each in theirs if prefix.overlaps(each)]
    theirs6 = read_prefixes6(connection, other)
    for prefix6 in read_prefixes6(connection, one):
        clashing += [f"{prefix6} and {each}" for each in theirs6 if prefix6.overlaps(each)]
    if clashing:
        raise OverlappingSubnets(
            f"the two networks share addresses: {', '.join(clashing)}",
            hint="a peering needs networks without common addresses",
            clashing=clashing,
        )


def refuse_two_ways(connection: sa.Connection, ours: int, theirs: int) -> None:
    """Raise OverlappingSubnets where one of two networks would have two ways to the same addresses.

    Args:
        ours: the network whose owner accepts, and knows the prefixes of its peers.
        theirs: the network that asked.
    """
    clashing = list[str]()
    asked = _read_all_prefixes(connection, theirs)
    for peer in sorted(_list_peers(connection, ours)):
        for prefix in _read_all_prefixes(connection, peer):
            clashing += [f"{one} and {prefix}" for one in asked if _is_shared(one, prefix)]
    for peer in sorted(_list_peers(connection, theirs)):
        present = _read_all_prefixes(connection, peer)
        for one in _read_all_prefixes(connection, ours):
            if any(_is_shared(one, prefix) for prefix in present):
                clashing.append(f"{one} and a network that the other one is peered with")
    if clashing:
        raise OverlappingSubnets(
            f"two networks with a peering to the same one share addresses: {', '.join(clashing)}",
            hint="networks that are peered with one network need addresses of their own",
            clashing=clashing,
        )


def _is_shared(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    # Networks of two families are not compared by the library.
    return one.version == other.version and one.overlaps(other)


def _read_all_prefixes(
    connection: sa.Connection, network_id: int
) -> list[IPv4Network | IPv6Network]:
    return [*read_prefixes(connection, network_id), *read_prefixes6(connection, network_id)]


def read_prefixes(connection: sa.Connection, network_id: int) -> list[IPv4Network]:
    """Read the IPv4 prefixes of the subnets of a network."""
    query = sa.select(subnets.c.cidr).where(subnets.c.network_id == network_id)
    return [IPv4Network(cidr) for cidr in connection.execute(query).scalars()]


def read_prefixes6(connection: sa.Connection, network_id: int) -> list[IPv6Network]:
    """Read the IPv6 prefixes of the subnets of a network."""
    query = sa.select(subnets.c.cidr6).where(
        subnets.c.network_id == network_id, subnets.c.cidr6.is_not(None)
    )
    return [IPv6Network(cidr) for cidr in connection.execute(query).scalars()]
