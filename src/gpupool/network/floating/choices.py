"""Chooses floating IPs of the prefix that an admin opens. Pure: what is taken comes as an argument."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, ip_address

from gpupool.base.errors import BadAddress, NameTaken, TooManyNetworks, WrongState
from gpupool.network.addresses import parse_prefix
from gpupool.network.gateways.model import UPLINK_PREFIXES

#: Prefix lengths of what an admin opens.
_SHORTEST = 16
_OPEN = "an admin opens some: gpupool network enable --floating-ips 203.0.113.32/28"


def parse_floating_prefix(text: str) -> IPv4Network:
    """Parse the prefix that an admin opens. Raises BadAddress."""
    prefix = parse_prefix(text)
    if prefix.prefixlen < _SHORTEST:
        raise BadAddress(
            f"a prefix of floating IPs has {_SHORTEST} to 32 bits; {prefix} has {prefix.prefixlen}"
        )
    if prefix.is_loopback or prefix.is_multicast or prefix.is_link_local or prefix.is_reserved:
        raise BadAddress(
            f"{prefix} is loopback, link-local, multicast or reserved: nothing outside reaches it"
        )
    inner = next((one for one in UPLINK_PREFIXES if one.overlaps(prefix)), None)
    if inner is not None:
        raise BadAddress(
            f"{prefix} overlaps {inner}, which gateways use inside of the machine",
            hint="take addresses that the segment or the router outside knows",
        )
    return prefix


def list_usable(prefix: IPv4Network) -> list[IPv4Address]:
    """List the addresses of a prefix for jobs: without its own and the broadcast address."""
    # hosts() of /31 and /32 has all of them (RFC 3021).
    return list(prefix.hosts())


def choose_floating(
    prefix: IPv4Network | None, wanted: str | None, taken: Collection[IPv4Address]
) -> IPv4Address:
    """Choose an address for a job.

    Args:
        prefix: None: no admin has opened one.
        wanted: by the tenant; None: any that is free.
        taken: by other floating IPs and by the gateways themselves.

    Raises:
        WrongState: no address is for tenants, or the one that is wanted is not.
        BadAddress: what is wanted is no address.
        NameTaken: the one that is wanted is taken.
        TooManyNetworks: every address is taken.
    """
    if prefix is None:
        raise WrongState("no address outside is for tenants", hint=_OPEN)
    usable = list_usable(prefix)
    if wanted is not None:
        return _check_wanted(prefix, usable, wanted, taken)
    free = next((one for one in usable if one not in taken), None)
    if free is None:
        raise TooManyNetworks(
            f"all {len(usable)} floating IPs {usable[0]}-{usable[-1]} are taken",
            hint="an admin opens a larger prefix: gpupool network enable --floating-ips PREFIX",
            limit=len(usable),
        )
    return free


def _check_wanted(
    prefix: IPv4Network,
    usable: list[IPv4Address],
    wanted: str,
    taken: Collection[IPv4Address],
) -> IPv4Address:
    try:
        address = ip_address(wanted)
    except ValueError as error:
        raise BadAddress(
            f"not an address: {wanted[:60]!r}", hint=f"write it like {usable[0]}"
        ) from error
    hint = "leave --address out to get a free one"
    if not isinstance(address, IPv4Address) or address not in usable:
        raise WrongState(
            f"{address} is not for tenants; {usable[0]} to {usable[-1]} of {prefix} are", hint=hint
        )
    if address in taken:
        # Another tenant's floating IP is not named.
        raise NameTaken(f"floating IP {address} is taken", hint=hint)
    return address
