"""Chooses and checks IPv6 prefixes and addresses. Pure: what is taken comes as an argument.

All of them are unique local addresses (RFC 4193): what leaves by a gateway is translated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256
from ipaddress import AddressValueError, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from gpupool.base.errors import BadAddress, SubnetFull

#: What `--cidr6` names for a prefix that the pool chooses.
AUTOMATIC: Final = "auto"
#: Length of a subnet's prefix: hosts make addresses of the other 64 bits (RFC 4291 section 2.5.1).
SUBNET_LENGTH: Final = 64
#: Length of the prefix of a network, of which its subnets are (RFC 4193 section 3.1).
_SITE_LENGTH: Final = 48
#: Bytes of the smallest packet that each link of IPv6 carries (RFC 8200 section 5).
LEAST_MTU: Final = 1280

#: Where the prefixes of subnets are (RFC 4193 section 3.1: the bit L is 1).
UNIQUE_LOCAL: Final = IPv6Network("fd00::/8")
#: The pool's own addresses, alike in all networks; its global id is "gpupo" in ASCII.
POOL_PREFIX: Final = IPv6Network("fd67:7075:706f::/48")
#: Addresses of load balancers.
BALANCER_PREFIX: Final = IPv6Network("fd67:7075:706f:1::/64")
#: Addresses between the routers of two networks; each link has one of these prefixes.
_LINK_PREFIX: Final = IPv6Network("fd67:7075:706f:2::/64")
LINK_LENGTH: Final = 126
#: Addresses of the resolver of each network and of the router beside it.
RESOLVER_PREFIX: Final = IPv6Network("fd67:7075:706f:ffff::/64")
RESOLVER_ADDRESS: Final = RESOLVER_PREFIX[2]
ROUTER_ADDRESS: Final = RESOLVER_PREFIX[1]

#: Addresses at the end of each subnet, for the proxies of load balancers.
_POOL_OFFSET: Final = (1 << 64) - (1 << 32)
#: Offsets from here on are of no IPv4 subnet, so no port has one by its IPv4 address.
_FIRST_FREE_OFFSET: Final = 1 << 16


def parse_cidr(text: str) -> IPv6Network:
    """Parse the IPv6 prefix of a subnet like `fd12:3456:789a::/64`.

    Raises:
        BadAddress: no IPv6 prefix, host bits set, of another length, or one that is not for subnets.
    """
    cidr = parse_prefix(text)
    if cidr.prefixlen != SUBNET_LENGTH:
        raise BadAddress(
            f"an IPv6 subnet has a prefix of {SUBNET_LENGTH} bits; {cidr} has {cidr.prefixlen}",
            hint=f"write it like {cidr[0]}/{SUBNET_LENGTH}, or let the pool choose: {AUTOMATIC}",
        )
    if not cidr.subnet_of(UNIQUE_LOCAL):
        raise BadAddress(
            f"{cidr} is outside of {UNIQUE_LOCAL}, the unique local addresses (RFC 4193); gateways "
            "translate these, and nothing outside leads to others",
            hint=f"let the pool choose one: {AUTOMATIC}",
        )
    if cidr.overlaps(POOL_PREFIX):
        raise BadAddress(
            f"{cidr} is of {POOL_PREFIX}, which is for name servers and load balancers",
            hint=f"let the pool choose one: {AUTOMATIC}",
        )
    return cidr


def parse_prefix(text: str) -> IPv6Network:
    """Parse an IPv6 prefix of any length like `fd00::/8`. Raises BadAddress."""
    try:
        cidr = IPv6Network(text, strict=False)
    except ValueError as error:
        raise BadAddress(
            f"not an IPv6 prefix: {text[:60]!r}", hint="write it like fd12:3456:789a::/64"
        ) from error
    if "/" not in text:
        raise BadAddress(f"{text[:60]} has no prefix length", hint=f"write it like {cidr[0]}/64")
    if IPv6Address(text.partition("/")[0]) != cidr[0]:
        raise BadAddress(
            f"{text[:60]} names an address inside a prefix", hint=f"the prefix is {cidr}"
        )
    return cidr


def is_outside(prefix: IPv4Network | IPv6Network) -> bool:
    """Whether a prefix has IPv6 addresses to which jobs have no route by themselves."""
    return isinstance(prefix, IPv6Network) and not prefix.subnet_of(UNIQUE_LOCAL)


def parse_address(text: str) -> IPv6Address:
    """Parse an IPv6 address. Raises BadAddress."""
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise BadAddress(
            f"not an IPv6 address: {text[:60]!r}", hint="write it like fd12:3456:789a::20"
        ) from error
    if address.scope_id is not None:
        raise BadAddress(
            f"{text[:60]} names an interface; an address of a network does not",
            hint="leave out what follows the %",
        )
    return address


def derive_site(network: str) -> IPv6Network:
    """Derive the prefix of a network's subnets from its public id, which is random.

    Two networks have the same one with a probability of 2**-40 (RFC 4193 section 3.2.3), so peered
    networks do not overlap.
    """
    global_id = sha256(f"gpupool {network}".encode()).digest()[:5]
    site = IPv6Network((bytes([0xFD]) + global_id + bytes(10), _SITE_LENGTH))
    return derive_site(f"{network}+") if site == POOL_PREFIX else site


def choose_prefix(site: IPv6Network, taken: Iterable[IPv6Network]) -> IPv6Network:
    """Choose the first prefix of a network's own that no subnet of it overlaps."""
    present = list(taken)
    for cidr in site.subnets(new_prefix=SUBNET_LENGTH):
        if not any(cidr.overlaps(other) for other in present):
            return cidr
    raise SubnetFull(f"all prefixes of {site} are taken", hint="name one of another prefix")


def find_gateway(cidr: IPv6Network) -> IPv6Address:
    """Return the router's address in a subnet: the first one after the subnet's own."""
    return cidr[1]


def find_probe(cidr: IPv6Network) -> IPv6Address:
    """Return the address of a subnet from which backends of load balancers are probed."""
    return cidr[-2]


def find_proxy_address(cidr: IPv6Network, offset: int) -> IPv6Address:
    """Return the address of a proxy in a subnet, by the number of its IPv4 address there.

    Proxies share the IPv4 addresses of a subnet with jobs, so no two have the same number.
    """
    return cidr[_POOL_OFFSET + offset]


def find_reservation(cidr: IPv6Network, address: IPv6Address) -> str | None:
    """Return the owner of an address of a subnet that no job may have; None: a job may."""
    if address in list_reserved(cidr):
        return list_reserved(cidr)[address]
    if address >= cidr[_POOL_OFFSET]:
        return f"of the last ones, from {cidr[_POOL_OFFSET]} on, which proxies have"
    return None


def choose_address(cidr: IPv6Network, taken: Collection[IPv6Address], offset: int) -> IPv6Address:
    """Choose a free address: that with the number which the IPv4 address has in its subnet.

    So the two are alike to people, and an address that became free is used again as late as its
    IPv4 address is. Where another job asked for it, the first free one after those of IPv4 counts.
    """
    address = cidr[offset]
    number = _FIRST_FREE_OFFSET
    while address in taken:
        address = cidr[number]
        number += 1
    return address


def list_reserved(cidr: IPv6Network) -> dict[IPv6Address, str]:
    """List the addresses of a subnet that no job may have, each with its owner."""
    return {
        cidr[0]: "the address of every router of the subnet",
        find_gateway(cidr): "the router's",
        find_probe(cidr): "the one that probes of load balancers come from",
    }


def find_link_address(peering: int, *, is_requester: bool) -> IPv6Address:
    """Return the address of a router on its link to another one, by the peering's row id."""
    first = int(_LINK_PREFIX[0]) + 4 * peering
    return IPv6Address(first + (1 if is_requester else 2))


def derive_uplink(uplink: IPv4Network) -> IPv6Network:
    """Derive the IPv6 prefix of the cable between gateways and their machine from its IPv4 one.

    So two pools of one machine, which have two IPv4 prefixes, have two of these.
    """
    number = int(uplink[0]) >> 16
    return IPv6Network((int(POOL_PREFIX[0]) | number << 64, SUBNET_LENGTH))


def find_balancer_address(balancer: int) -> IPv6Address:
    """Return the address of a load balancer, unique in the pool, by its row id."""
    return BALANCER_PREFIX[balancer]
