"""Compiles the traffic that the pods of a subnet accept to the rules of Kube-OVN's `Subnet`. Pure.

Rules drop what is not accepted, before those of any NetworkPolicy: what they leave is judged by
NetworkPolicies as everywhere, so a tenant can narrow accepted traffic and not widen it. An accepting
rule could not do that: the first rule that matches decides. Rare protocols are the exception: only a
few of them can be dropped before, the others are dropped where no NetworkPolicy allows them.

Kube-OVN's own `SecurityGroup` is not used: an annotation of the pod names it, which a tenant may not
set (docs/decisions/0094-more-of-kube-ovn.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses
from itertools import pairwise

from gpupool.kubernetes.networks.kube_ovn import Json
from gpupool.kubernetes.resources.network_parts.subnets import AcceptedTraffic, NetworkSubnet

Prefix = IPv4Network | IPv6Network

#: Rules with a greater number come first. Those of NetworkPolicies have 2,000 and 2,001
#: (pkg/util/const.go of Kube-OVN 1.17.0). The switch lets answers, neighbour discovery, DHCP and
#: probes of balancers pass by itself, before all of these.
_DROP_PRIORITY = 2_500
_NAMED_PRIORITY = 1_100
_OTHERS_PRIORITY = 1_000
_TRACK_PRIORITY = 900
#: Towards the ports of a switch.
_INBOUND = "to-lport"
_LAST_PORT = 65_535
#: Protocols that accepted traffic can name.
_NAMED = ("tcp", "udp", "icmp")
#: Every protocol that it cannot.
_OTHERS = "others"
#: Those of them that carry payload (IANA): IGMP, IPIP, IPv6, GRE, ESP, AH, SCTP. OVN can test a
#: protocol for equality alone, so all others together cannot be matched.
_CARRIERS = (2, 4, 41, 47, 50, 51, 132)
_EVERYWHERE: dict[int, Prefix] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


@dataclass(frozen=True)
class DroppedTraffic:
    """Packets that the pods of a subnet do not take.

    Attributes:
        protocol: one that rules name, `others` or `any`.
        first_port, last_port: both included.
    """

    protocol: str
    sources: tuple[Prefix, ...]
    first_port: int = 0
    last_port: int = _LAST_PORT


def compile_traffic(subnet: NetworkSubnet) -> list[Json]:
    """Return `acls` of the subnet; empty: every packet passes.

    All matches name the destination: the port of the router is one of the switch too, and packets
    that leave the subnet go through it.
    """
    if subnet.accepts is None:
        return []
    rules = []
    for prefix in (subnet.cidr, subnet.cidr6):
        if prefix is None:
            continue
        inbound = f"ip{prefix.version}.dst == {prefix}"
        for dropped in list_dropped(prefix, subnet.accepts):
            match = f"{inbound} && {_match_dropped(prefix.version, dropped)}"
            rules.append(_describe_rule(_DROP_PRIORITY, match, "drop"))
            if dropped.protocol == _OTHERS:
                rules += _drop_others(prefix.version, inbound, dropped)
        # Without one such rule the switch tracks no connections, and answers would be dropped.
        rules.append(_describe_rule(_TRACK_PRIORITY, inbound, "allow-related"))
    return rules


def list_dropped(prefix: Prefix, accepts: Iterable[AcceptedTraffic]) -> list[DroppedTraffic]:
    """Return what is dropped of packets to the prefix. No two of them overlap."""
    mine = []
    for one in accepts:
        if one.source is None or one.source.version == prefix.version:
            mine.append(one)
    dropped = []
    for protocol in (*_NAMED, _OTHERS):
        named = [one for one in mine if one.protocol in ("any", protocol)]
        dropped += _list_segments(prefix, protocol, named)
    parts = {(one.sources, one.first_port, one.last_port) for one in dropped}
    if len(dropped) == 4 and len(parts) == 1:
        return [DroppedTraffic("any", dropped[0].sources)]
    return dropped


def _list_segments(
    prefix: Prefix, protocol: str, accepts: list[AcceptedTraffic]
) -> list[DroppedTraffic]:
    """Cut the ports where what is accepted changes; return the dropped sources of each piece."""
    cuts = {0, _LAST_PORT + 1}
    for one in accepts:
        cuts.update(_find_ports(one))
    borders = sorted(cuts)
    segments: list[DroppedTraffic] = []
    for first, end in pairwise(borders):
        sources: list[Prefix] = [prefix]
        for one in accepts:
            begin, after = _find_ports(one)
            if begin <= first and end <= after:
                sources.append(one.source or _EVERYWHERE[prefix.version])
        rest = _subtract(_EVERYWHERE[prefix.version], sources)
        last = segments[-1] if segments else None
        if last is not None and last.sources == rest and last.last_port == first - 1:
            segments[-1] = DroppedTraffic(protocol, rest, last.first_port, end - 1)
        elif rest:
            segments.append(DroppedTraffic(protocol, rest, first, end - 1))
    return segments


def _find_ports(traffic: AcceptedTraffic) -> tuple[int, int]:
    """Return the first port and the one after the last."""
    if traffic.first_port is None or traffic.last_port is None:
        return 0, _LAST_PORT + 1
    return traffic.first_port, traffic.last_port + 1


def _subtract(whole: Prefix, parts: Iterable[Prefix]) -> tuple[Prefix, ...]:
    """Return the prefixes of what is left, in order."""
    rest = [whole]
    for part in parts:
        left: list[Prefix] = []
        for one in rest:
            if not one.overlaps(part):
                left.append(one)
            elif not one.subnet_of(part):  # type: ignore[arg-type]  # both of one family
                left += one.address_exclude(part)  # type: ignore[arg-type]
        rest = left
    return tuple(collapse_addresses(rest))  # type: ignore[type-var]


def _match_dropped(version: int, dropped: DroppedTraffic) -> str:
    terms = [_match_sources(version, dropped)]
    if dropped.protocol == _OTHERS:
        numbers = ", ".join(str(one) for one in _CARRIERS)
        terms.append(f"ip.proto == {{{numbers}}}")
    elif dropped.protocol != "any":
        terms.append(_match_named(version, dropped.protocol))
    if dropped.first_port > 0:
        terms.append(f"{dropped.protocol}.dst >= {dropped.first_port}")
    if dropped.last_port < _LAST_PORT:
        terms.append(f"{dropped.protocol}.dst <= {dropped.last_port}")
    return " && ".join(terms)


def _match_sources(version: int, dropped: DroppedTraffic) -> str:
    sources = ", ".join(str(one) for one in dropped.sources)
    return f"ip{version}.src == {{{sources}}}"


def _match_named(version: int, protocol: str) -> str:
    return f"icmp{version}" if protocol == "icmp" else protocol


def _drop_others(version: int, inbound: str, dropped: DroppedTraffic) -> list[Json]:
    """Return rules that drop every protocol without a name, after those of NetworkPolicies.

    Named ones are let through first: what is dropped of them is dropped already.
    """
    rules = []
    for protocol in _NAMED:
        match = f"{inbound} && {_match_named(version, protocol)}"
        rules.append(_describe_rule(_NAMED_PRIORITY, match, "allow-related"))
    sources = f"{inbound} && {_match_sources(version, dropped)}"
    return [*rules, _describe_rule(_OTHERS_PRIORITY, sources, "drop")]


def _describe_rule(priority: int, match: str, action: str) -> Json:
    return {"direction": _INBOUND, "priority": priority, "match": match, "action": action}
