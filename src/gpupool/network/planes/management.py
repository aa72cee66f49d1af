"""Finds ways from a tenant's networks to the management network: BMCs, servers of the pool, databases. Pure.

What decides is what `network why` reads too: subnets, peerings, lines, and the gateway with the boundary's firewall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from gpupool.network.model import Network


@dataclass(frozen=True)
class BoundaryRule:
    """A rule of the boundary's firewall for connections that jobs of a network open, in its turn.

    Attributes:
        is_whole: whether it is for every protocol and port.
    """

    action: str
    prefix: IPv4Network
    is_whole: bool


def list_exposures(
    network: Network, prefixes: Iterable[IPv4Network], rules: Sequence[BoundaryRule]
) -> list[str]:
    """List the ways from a network to management prefixes, as sentences.

    Args:
        rules: those that hold for the network, in their order.
    """
    found = list[str]()
    for prefix in prefixes:
        found += _list_routes(network, prefix)
        if network.gateway is not None and not _is_denied(prefix, rules):
            found.append(
                f"the gateway of {network.name} leads to {prefix}: "
                f"gpupool network firewall-create deny {prefix} --number 1"
            )
    return found


def _list_routes(network: Network, prefix: IPv4Network) -> Iterator[str]:
    for subnet in network.subnets:
        if subnet.cidr.overlaps(prefix):
            yield f"subnet {subnet.cidr} of {network.name} has addresses of {prefix}"
    for end in network.peerings:
        for other in end.prefixes:
            if other.overlaps(prefix):
                yield f"a peering of {network.name} leads to {other}, which has addresses of {prefix}"
    for line in network.lines:
        for route in (line.link, *line.allowed):
            if route.overlaps(prefix):
                yield f"VLAN {line.vlan} of {network.name} leads to {route}, which has addresses of {prefix}"


def _is_denied(prefix: IPv4Network, rules: Sequence[BoundaryRule]) -> bool:
    """Whether every packet to a prefix is denied: by one rule, before any that allows a part."""
    for rule in rules:
        if rule.action == "allow" and rule.prefix.overlaps(prefix):
            return False
        if rule.action == "deny" and rule.is_whole and prefix.subnet_of(rule.prefix):
            return True
    return False
