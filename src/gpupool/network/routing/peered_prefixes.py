"""Prefixes of networks that are peered, and the addresses that they may not share.

Everything runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import OverlappingSubnets
from gpupool.network.lines.reading import list_line_prefixes
from gpupool.network.tables import network_peerings, networks, subnets

_requester = networks.alias("peering_requester")

#: Peerings that are accepted, with what `choose_agreed` takes.
ACCEPTED: Final = (
    sa.select(
        network_peerings.c.id,
        network_peerings.c.public_id,
        network_peerings.c.requester_id,
        network_peerings.c.link,
        network_peerings.c.agreed,
        networks.c.id.label("accepter_id"),
        (networks.c.tenant_id == _requester.c.tenant_id).label("is_own"),
    )
    .join(networks, networks.c.public_id == network_peerings.c.accepter)
    .join(_requester, _requester.c.id == network_peerings.c.requester_id)
    .where(network_peerings.c.accepted_ns.is_not(None))
)


def is_agreed(peering: Any, subnet: str) -> bool:
    """Whether the owner of the other side of a peering agreed to a subnet, by its public id.

    Args:
        peering: a row of `ACCEPTED`. Where both networks are of one tenant, it agrees to all.
    """
    return bool(peering.is_own) or subnet in peering.agreed


def refuse_second_way(
    connection: sa.Connection, network_id: int, cidr: IPv4Network | IPv6Network
) -> None:
    """Raise OverlappingSubnets where a peered network has another way to addresses of a new subnet.

    Else its owner's packets for the other network would go to the owner of this one.
    """
    for peer in list_peers(connection, network_id):
        routed = read_routed(connection, peer, list_peers(connection, peer) - {network_id})
        for prefix in routed:
            if _is_shared(cidr, prefix):
                # The other network is of an owner who has agreed to tell the peer alone.
                raise OverlappingSubnets(
                    f"{cidr} overlaps a network that a peered network is peered with",
                    hint="take another prefix, or revoke a peering: gpupool network peering-list NAME",
                    clashing=[str(cidr)],
                )


def list_peers(connection: sa.Connection, network_id: int) -> set[int]:
    """List the row ids of the networks that a network is peered with."""
    return {_find_other(row, network_id) for row in _read_accepted(connection, network_id)}


def read_routed(
    connection: sa.Connection, network_id: int, peers: Collection[int]
) -> list[IPv4Network | IPv6Network]:
    """Read the prefixes to which a network has routes over its peerings.

    Args:
        peers: row ids of the networks at the other ends; those of other peerings are left out.
    """
    found = list[IPv4Network | IPv6Network]()
    for row in _read_accepted(connection, network_id):
        other = _find_other(row, network_id)
        if other not in peers:
            continue
        query = sa.select(subnets).where(subnets.c.network_id == other).order_by(subnets.c.id)
        for subnet in connection.execute(query):
            if is_agreed(row, subnet.public_id):
                found.append(IPv4Network(subnet.cidr))
                if subnet.cidr6 is not None:
                    found.append(IPv6Network(subnet.cidr6))
    return found


def _read_accepted(connection: sa.Connection, network_id: int) -> Sequence[Any]:
    ends = sa.or_(network_peerings.c.requester_id == network_id, networks.c.id == network_id)
    return connection.execute(ACCEPTED.where(ends).order_by(network_peerings.c.id)).all()


def _find_other(peering: Any, network_id: int) -> int:
    requester: int = peering.requester_id
    accepter: int = peering.accepter_id
    return accepter if requester == network_id else requester


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
    for prefix in read_routed(connection, ours, list_peers(connection, ours) - {theirs}):
        clashing += [f"{one} and {prefix}" for one in asked if _is_shared(one, prefix)]
    present = read_routed(connection, theirs, list_peers(connection, theirs) - {ours})
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
