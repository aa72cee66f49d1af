"""Names, addresses and prefixes in a Tenant's network, read from text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    NetmaskValueError,
)
from typing import Any

from gpupool.base.errors import BadAddress, BadOption

#: Names of Tenants with a network and of its parts. A double hyphen separates them in the names of
#: Kube-OVN's objects.
NAME = "^[a-z0-9]+(-[a-z0-9]+)*$"
#: Characters: names of Kube-OVN's objects become labels of pods, which have 63.
LONGEST_PART = 20
#: Addresses between the routers of peered networks.
LINKS = IPv4Network("169.254.0.0/16")
#: The same for IPv6, the prefix of gpupool's own addresses (docs/decisions/0084).
LINKS6 = IPv6Network("fd67:7075:706f::/48")
#: Unique local addresses (RFC 4193), the only IPv6 of networks.
LOCAL6 = IPv6Network("fd00::/8")
PROTOCOLS = ("tcp", "udp")

Json = Mapping[str, Any]


def read_name(found: Json) -> str:
    """Return the name of a part. Raises BadOption."""
    name = str(found.get("name") or "")
    if not re.fullmatch(NAME, name) or len(name) > LONGEST_PART:
        raise BadOption(
            f"{name[:63]!r} names no part of a network",
            hint=f"1 to {LONGEST_PART} lower-case letters, digits and single hyphens",
        )
    return name


def read_prefix(typed: object) -> IPv4Network:
    """Return an IPv4 prefix of any length. Raises BadAddress."""
    try:
        return IPv4Network(str(typed))
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv4 prefix: {error}", hint="write e.g. 10.1.0.0/24"
        ) from None


def read_prefix6(typed: object) -> IPv6Network:
    """Return an IPv6 prefix of any length. Raises BadAddress."""
    try:
        return IPv6Network(str(typed))
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv6 prefix: {error}", hint="write e.g. fd00:1::/64"
        ) from None


def read_any_prefix(typed: object) -> IPv4Network | IPv6Network:
    """Return a prefix of either family. Raises BadAddress."""
    return read_prefix6(typed) if ":" in str(typed) else read_prefix(typed)


def read_address(typed: object) -> IPv4Address:
    """Return an IPv4 address. Raises BadAddress."""
    try:
        return IPv4Address(str(typed))
    except AddressValueError:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv4 address", hint="write e.g. 10.1.0.254"
        ) from None


def read_address6(typed: object) -> IPv6Address:
    """Return an IPv6 address. Raises BadAddress."""
    try:
        return IPv6Address(str(typed))
    except AddressValueError:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv6 address", hint="write e.g. fd00:1::1"
        ) from None


def check_host(address: IPv4Address, cidr: IPv4Network, where: str) -> None:
    """Raise BadAddress unless a host may have the address."""
    if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
        raise BadAddress(
            f"{address} is not a host of {where} ({cidr})",
            hint=f"take one from {cidr[1]} to {cidr[-2]}",
        )


def check_names(what: str, parts: Iterable[Any]) -> None:
    """Raise BadOption if two parts have one name."""
    names: set[str] = set()
    for part in parts:
        if part.name in names:
            raise BadOption(f"two of the {what} are called {part.name}")
        names.add(part.name)
