"""Checks what a tenant asks of a dedicated line. Pure: what is taken comes as an argument."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from gpupool.base.errors import BadAddress, OverlappingSubnets
from gpupool.network.addresses import parse_prefix
from gpupool.network.balancing.model import BALANCER_ADDRESSES
from gpupool.network.lines.model import Line
from gpupool.network.lines.translation import (
    Translation,
    check_origins,
    parse_translations,
    see_outside,
)
from gpupool.wire.network.lines import LineIn

#: A link has two addresses of ours and one of the peer's.
_LONGEST_LINK = 29
_SHORTEST_LINK = 16


def parse_line(key: str, body: LineIn) -> Line:
    """Make a line of what was asked. Raises BadAddress, OverlappingSubnets."""
    _refuse_ipv6((body.address, body.speaker or "", body.peer, *body.allowed))
    address = _parse_link(body.address)
    speaker = _parse_address(body.speaker or str(address.ip + 1))
    peer = _parse_address(body.peer)
    _check_link(address, speaker, peer)
    if body.asn == body.peer_asn:
        raise BadAddress(
            f"both ends have the AS number {body.asn}",
            hint="a line needs two: take a private one, 64512 to 65534, for the pool",
        )
    allowed = tuple(map(parse_prefix, body.allowed))
    line = Line(
        key,
        body.vlan,
        address,
        speaker,
        peer,
        body.mtu,
        body.prefix_limit,
        allowed,
        translations=_parse_ours(body),
        peer_translations=_parse_theirs(body, allowed),
    )
    link = ("the line's own link", line.link)
    check_apart((*line.allowed, *line.seen_allowed), [link])
    # The company has its own addresses too.
    outside = [one.outside for one in line.translations]
    check_apart(outside, [link, *(("what --allow names", one) for one in line.allowed)])
    return line


def _parse_ours(body: LineIn) -> tuple[Translation, ...]:
    pairs = [(one.inside, one.outside) for one in body.translations]
    found = parse_translations(pairs, "--translate")
    return tuple(Translation(inside, outside) for inside, outside in found)


def _parse_theirs(body: LineIn, allowed: tuple[IPv4Network, ...]) -> tuple[Translation, ...]:
    pairs = [(one.outside, one.inside) for one in body.peer_translations]
    found = parse_translations(pairs, "--translate-peer")
    check_origins((pair[0] for pair in found), allowed, "--translate-peer", "what --allow names")
    return tuple(Translation(inside, outside) for outside, inside in found)


def _refuse_ipv6(texts: Iterable[str]) -> None:
    for text in texts:
        if ":" in text:
            raise BadAddress(
                f"dedicated lines carry IPv4 alone, and {text[:60]} is of IPv6",
                hint="name IPv4 addresses and prefixes; IPv6 over a line is dropped",
            )


def check_apart(prefixes: Iterable[IPv4Network], others: Iterable[tuple[str, IPv4Network]]) -> None:
    """Raise OverlappingSubnets where prefixes of a line share addresses with what is there.

    Args:
        others: what has each prefix, for people, and the prefix.
    """
    present = list(others)
    clashing = list[str]()
    for prefix in prefixes:
        clashing += [
            f"{prefix} and {one} of {what}" for what, one in present if one.overlaps(prefix)
        ]
    if clashing:
        raise OverlappingSubnets(
            f"the line shares addresses with what is there: {', '.join(clashing)}",
            hint="take other prefixes, or a network without these subnets, peerings and lines",
            clashing=clashing,
        )


def check_seen(subnets: Iterable[IPv4Network], line: Line) -> None:
    """Raise OverlappingSubnets where the company would see a subnet at addresses of its own."""
    for subnet in subnets:
        seen = see_outside(subnet, line.translations)
        clashing = [str(one) for one in line.allowed if one.overlaps(seen)]
        if clashing:
            raise OverlappingSubnets(
                f"the company would see {subnet} as {seen}, and has {', '.join(clashing)} itself",
                hint=f"a line translates it with --translate {subnet}=PREFIX",
                clashing=clashing,
            )


def check_usable(prefixes: Iterable[IPv4Network]) -> None:
    """Raise BadAddress where a prefix has addresses that no host of a company has."""
    for prefix in prefixes:
        is_special = (
            prefix.is_loopback or prefix.is_multicast or prefix.is_link_local or prefix.is_reserved
        )
        if is_special or prefix.overlaps(BALANCER_ADDRESSES) or prefix.prefixlen == 0:
            raise BadAddress(
                f"{prefix} cannot be used on a line: loopback, link-local, multicast, reserved, "
                f"everything, or of {BALANCER_ADDRESSES}, which is for load balancers",
                hint="name the prefixes of the company, like 172.20.0.0/16",
            )


def check_announced(announced: Iterable[str], subnets: Iterable[str]) -> None:
    """Raise BadAddress where something else than subnets of the network would be announced."""
    present = set(subnets)
    foreign = [prefix for prefix in announced if prefix not in present]
    if foreign:
        raise BadAddress(
            f"{', '.join(foreign)}: no subnet of the network, which has "
            f"{', '.join(sorted(present))}",
            hint="leave --announce out to announce every subnet",
        )


def _parse_link(text: str) -> IPv4Interface:
    address, has_prefix, _ = text.partition("/")
    try:
        link = IPv4Interface(text)
    except ValueError as error:
        raise BadAddress(
            f"not an IPv4 address with a prefix length: {text!r}",
            hint="write it like 192.168.200.1/29",
        ) from error
    bits = link.network.prefixlen
    if not has_prefix or not _SHORTEST_LINK <= bits <= _LONGEST_LINK:
        raise BadAddress(
            f"the link of a line has {_SHORTEST_LINK} to {_LONGEST_LINK} bits; {text} has {bits}",
            hint=f"the router, the speaker and the peer need an address each: {address}/29",
        )
    return link


def _parse_address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise BadAddress(f"not an IPv4 address: {text!r}") from error


def _check_link(address: IPv4Interface, speaker: IPv4Address, peer: IPv4Address) -> None:
    link = address.network
    three = (address.ip, speaker, peer)
    if len(set(three)) < len(three):
        raise BadAddress(
            f"router {address.ip}, speaker {speaker} and peer {peer} need an address each",
            hint="name another for the speaker: --speaker ADDRESS",
        )
    for one in three:
        if one not in link or one in (link[0], link[-1]):
            raise BadAddress(f"{one} is no address of a host in {link}")
