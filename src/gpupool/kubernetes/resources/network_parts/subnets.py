"""Subnets of a Tenant's network: prefixes, namespaces, and the traffic that their pods accept. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import combinations

from gpupool.base.errors import BadAddress, BadOption, OverlappingSubnets
from gpupool.kubernetes.resources.network_parts.values import (
    LINKS,
    LINKS6,
    LOCAL6,
    Json,
    check_host,
    read_address,
    read_address6,
    read_any_prefix,
    read_name,
    read_prefix,
    read_prefix6,
)

#: Protocols of accepted traffic. `any`: every packet.
ACCEPTED_PROTOCOLS = ("any", "tcp", "udp", "icmp")
#: Protocols with ports.
_WITH_PORTS = ("tcp", "udp")


@dataclass(frozen=True)
class AcceptedTraffic:
    """Connections that the pods of a subnet take from outside of it.

    Attributes:
        first_port, last_port: destination ports, both included; None: every port.
        source: None: every address.
    """

    protocol: str
    first_port: int | None = None
    last_port: int | None = None
    source: IPv4Network | IPv6Network | None = None


@dataclass(frozen=True)
class NetworkSubnet:
    """A range of addresses, and the namespaces whose pods get them.

    Attributes:
        namespaces: empty: all of the tenant's.
        excluded: addresses that no pod gets by itself.
        mtu: in bytes; None: Kube-OVN's own.
        cidr6: the IPv6 prefix beside the IPv4 one; None: the subnet has no IPv6.
        gateway6: the router's address in it; None exactly where `cidr6` is.
        accepts: what pods take from outside of the subnet; None: everything.
    """

    name: str
    cidr: IPv4Network
    gateway: IPv4Address
    namespaces: tuple[str, ...] = ()
    excluded: tuple[IPv4Address, ...] = ()
    mtu: int | None = None
    cidr6: IPv6Network | None = None
    gateway6: IPv6Address | None = None
    accepts: tuple[AcceptedTraffic, ...] | None = None


def read_subnet(found: Json) -> NetworkSubnet:
    """Read one subnet. Raises BadAddress, BadOption."""
    name = read_name(found)
    cidr = _read_cidr(found.get("cidr"))
    gateway = read_address(found["gateway"]) if found.get("gateway") else cidr[1]
    excluded = tuple(sorted(read_address(one) for one in found.get("excluded") or ()))
    for address in (gateway, *excluded):
        check_host(address, cidr, f"subnet {name}")
    cidr6 = _read_cidr6(found["cidr6"]) if found.get("cidr6") else None
    accepts = None
    if found.get("accepts") is not None:
        accepts = tuple(_read_traffic(one, name, cidr6) for one in found["accepts"])
    return NetworkSubnet(
        name=name,
        cidr=cidr,
        gateway=gateway,
        namespaces=tuple(sorted(set(found.get("namespaces") or ()))),
        excluded=excluded,
        mtu=found.get("mtu"),
        cidr6=cidr6,
        gateway6=_read_gateway6(found.get("gateway6"), name, cidr6),
        accepts=accepts,
    )


def find_subnet(name: str, subnets: tuple[NetworkSubnet, ...], what: str) -> NetworkSubnet:
    """Return the subnet of that name. Raises BadOption."""
    for one in subnets:
        if one.name == name:
            return one
    raise BadOption(
        f"{what} names the subnet {name!r}, which the network lacks",
        hint=f"it has {', '.join(one.name for one in subnets)}",
    )


def check_inside(address: IPv4Address, subnets: tuple[NetworkSubnet, ...], what: str) -> None:
    """Raise BadAddress unless the address is a host of one of the subnets."""
    for one in subnets:
        if address in one.cidr:
            check_host(address, one.cidr, f"subnet {one.name}")
            return
    raise BadAddress(
        f"{what} {address}, which is in no subnet of the network",
        hint=f"subnets: {', '.join(str(one.cidr) for one in subnets)}",
    )


def check_overlaps(subnets: tuple[NetworkSubnet, ...]) -> None:
    """Raise OverlappingSubnets if an address would be in two subnets."""
    clashing = []
    for one, other in combinations(subnets, 2):
        if one.cidr.overlaps(other.cidr):
            clashing.append(f"{one.name} {one.cidr} and {other.name} {other.cidr}")
        if one.cidr6 and other.cidr6 and one.cidr6.overlaps(other.cidr6):
            clashing.append(f"{one.name} {one.cidr6} and {other.name} {other.cidr6}")
    if clashing:
        raise OverlappingSubnets(f"subnets overlap: {', '.join(clashing)}", clashing=clashing)


def list_prefixes(subnets: Iterable[NetworkSubnet]) -> list[IPv4Network | IPv6Network]:
    """Return the prefixes of both families, in the order of the subnets."""
    prefixes: list[IPv4Network | IPv6Network] = []
    for one in subnets:
        prefixes.append(one.cidr)
        if one.cidr6 is not None:
            prefixes.append(one.cidr6)
    return prefixes


def _read_cidr(typed: object) -> IPv4Network:
    cidr = read_prefix(typed)
    if cidr.prefixlen > 29:
        raise BadAddress(
            f"{cidr} has {cidr.num_addresses} addresses, a subnet needs 8 at least",
            hint="take a prefix of 29 bits or fewer",
        )
    if cidr.overlaps(LINKS):
        raise BadAddress(f"{cidr} overlaps {LINKS}, which joins peered networks")
    return cidr


def _read_cidr6(typed: object) -> IPv6Network:
    cidr = read_prefix6(typed)
    if cidr.prefixlen != 64 or not cidr.subnet_of(LOCAL6):
        raise BadAddress(
            f"{cidr} is not a /64 of {LOCAL6}, which the IPv6 of a network stays in",
            hint="write e.g. fd00:1::/64",
        )
    if cidr.subnet_of(LINKS6):
        raise BadAddress(f"{cidr} is in {LINKS6}, which joins peered networks")
    return cidr


def _read_gateway6(typed: object, name: str, cidr6: IPv6Network | None) -> IPv6Address | None:
    if cidr6 is None:
        if typed:
            raise BadOption(f"subnet {name} has a gateway6 and no cidr6", hint="name its cidr6")
        return None
    if not typed:
        return cidr6[1]
    gateway = read_address6(typed)
    if gateway not in cidr6 or gateway == cidr6.network_address:
        raise BadAddress(
            f"{gateway} is not a host of subnet {name} ({cidr6})", hint=f"take e.g. {cidr6[1]}"
        )
    return gateway


def _read_traffic(found: Json, subnet: str, cidr6: IPv6Network | None) -> AcceptedTraffic:
    protocol = found.get("protocol") or ACCEPTED_PROTOCOLS[0]
    first = found.get("port")
    last = found.get("lastPort") or first
    if last is not None:
        if first is None or last < first:
            raise BadOption(
                f"subnet {subnet} accepts ports from {first} to {last}",
                hint="port is the first one, lastPort the last one",
            )
        if protocol not in _WITH_PORTS:
            raise BadOption(
                f"subnet {subnet} accepts port {first} of {protocol}, which has no ports",
                hint=f"protocol is {' or '.join(_WITH_PORTS)} where ports are named",
            )
    source = read_any_prefix(found["from"]) if found.get("from") else None
    if isinstance(source, IPv6Network) and cidr6 is None:
        raise BadAddress(
            f"subnet {subnet} accepts traffic from {source} and has no IPv6", hint="name its cidr6"
        )
    return AcceptedTraffic(protocol, first, last, source)
