"""Chooses and checks addresses. Pure: what is taken comes as an argument."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import TypeVar

from gpupool.base.errors import BadAddress, OverlappingSubnets, SubnetFull
from gpupool.network.balancing.model import BALANCER_ADDRESSES

#: A prefix of one of the two families.
_Prefix = TypeVar("_Prefix", IPv4Network, IPv6Network)

#: Prefix lengths of a subnet: 14 to 65,533 addresses for ports.
LONGEST_PREFIX = 28
SHORTEST_PREFIX = 16
#: The first address is the network's own, the second the router's, the last the broadcast's.
_FIRST_OFFSET = 2


def parse_cidr(text: str) -> IPv4Network:
    """Parse a subnet like `10.0.0.0/24`.

    Raises:
        BadAddress: no IPv4 prefix, host bits set, of a wrong size, or a range that no port may use.
    """
    cidr = parse_prefix(text)
    if not SHORTEST_PREFIX <= cidr.prefixlen <= LONGEST_PREFIX:
        raise BadAddress(
            f"a subnet has a prefix of {SHORTEST_PREFIX} to {LONGEST_PREFIX} bits; "
            f"{cidr} has {cidr.prefixlen}",
            hint="take several subnets in place of a larger one",
        )
    if cidr.overlaps(BALANCER_ADDRESSES):
        raise BadAddress(
            f"{cidr} overlaps {BALANCER_ADDRESSES}, which is for load balancers",
            hint="take a prefix of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
        )
    if cidr.is_loopback or cidr.is_multicast or cidr.is_link_local or cidr.is_reserved:
        raise BadAddress(
            f"{cidr} is a range that no port may use: loopback, link-local, multicast or reserved",
            hint="take a prefix of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
        )
    return cidr


def parse_prefix(text: str) -> IPv4Network:
    """Parse a prefix of any size like `10.0.0.0/8`. Raises BadAddress."""
    try:
        cidr = IPv4Network(text, strict=False)
    except ValueError as error:
        raise BadAddress(
            f"not an IPv4 prefix: {text[:60]!r}", hint="write it like 10.0.0.0/24"
        ) from error
    if "/" not in text:
        raise BadAddress(f"{text[:60]} has no prefix length", hint=f"write it like {cidr[0]}/24")
    if str(cidr) != text:
        raise BadAddress(
            f"{text[:60]} names an address inside a prefix", hint=f"the prefix is {cidr}"
        )
    return cidr


def check_overlap(
    cidr: _Prefix, others: Iterable[_Prefix], where: str = "the same network"
) -> None:
    """Raise OverlappingSubnets where a new subnet shares addresses with one that is there."""
    clashing = [str(other) for other in others if cidr.overlaps(other)]
    if clashing:
        raise OverlappingSubnets(
            f"{cidr} overlaps {', '.join(clashing)} of {where}",
            hint="subnets overlap only where their networks are not peered",
            clashing=clashing,
        )


def find_gateway(cidr: IPv4Network) -> IPv4Address:
    """Return the router's address in a subnet: the first one."""
    return cidr[1]


def count_port_addresses(cidr: IPv4Network) -> int:
    """Count the addresses that ports can have in a subnet."""
    return cidr.num_addresses - _FIRST_OFFSET - 1


def choose_address(
    cidr: IPv4Network, taken: Collection[IPv4Address], next_offset: int
) -> IPv4Address:
    """Choose a free address, from `next_offset` on and then from the start.

    So an address that became free is used again as late as possible: neighbours remember the MAC
    address of its last owner for a while.

    Raises:
        SubnetFull: every address is taken.
    """
    size = count_port_addresses(cidr)
    begin = max(0, next_offset - _FIRST_OFFSET)
    for step in range(size):
        address = cidr[_FIRST_OFFSET + (begin + step) % size]
        if address not in taken:
            return address
    raise SubnetFull(
        f"all {size} addresses of {cidr} are taken",
        hint="add a subnet to the network: gpupool network subnet-create NAME --cidr PREFIX",
        addresses=size,
    )


def choose_number(taken: Collection[int], numbers: range) -> int | None:
    """Choose the lowest number that is free; None: all are taken."""
    return next((number for number in numbers if number not in taken), None)


def find_offset(cidr: IPv4Network, address: IPv4Address) -> int:
    """Return the number of an address in its subnet."""
    return int(address) - int(cidr[0])
