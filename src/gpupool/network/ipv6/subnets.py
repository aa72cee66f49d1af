"""Finds the IPv6 prefix of a new subnet. Runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadAddress
from gpupool.network.addresses import check_overlap
from gpupool.network.ipv6.addresses import (
    AUTOMATIC,
    LEAST_MTU,
    choose_prefix,
    derive_site,
    parse_cidr,
)
from gpupool.network.peerings import list_peered_prefixes6
from gpupool.network.routing.peered_prefixes import refuse_second_way
from gpupool.network.routing.service import check_new_subnet
from gpupool.network.tables import networks


def find_subnet_prefix(
    connection: sa.Connection, network_id: int, text: str | None, present: Iterable[Any]
) -> str | None:
    """Find the IPv6 prefix of a subnet that is about to be created; None: it has no IPv6.

    Args:
        text: what its tenant asks for.
        present: rows of the subnets that the network has.

    Raises:
        BadAddress: no prefix for subnets, or the network's packets are too small for IPv6.
        OverlappingSubnets: it shares addresses with a subnet of the network or of a peered one.
    """
    if text is None:
        return None
    network = connection.execute(sa.select(networks).where(networks.c.id == network_id)).one()
    if network.mtu < LEAST_MTU:
        raise BadAddress(
            f"IPv6 needs packets of {LEAST_MTU} bytes; those of network {network.name} have "
            f"{network.mtu} at most",
            hint=f"create another network: --mtu {LEAST_MTU} or more",
        )
    ours = [IPv6Network(row.cidr6) for row in present if row.cidr6 is not None]
    if text == AUTOMATIC:
        cidr = choose_prefix(derive_site(network.public_id), ours)
    else:
        cidr = parse_cidr(text)
        check_overlap(cidr, ours)
    check_overlap(cidr, list_peered_prefixes6(connection, network), "a peered network")
    refuse_second_way(connection, network_id, cidr)
    check_new_subnet(connection, network_id, cidr)
    return str(cidr)
