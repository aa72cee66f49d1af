"""Checks what a tenant asks of a static route. Pure: what is there comes as an argument."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from gpupool.base.errors import BadAddress, NameTaken, OverlappingSubnets, WrongState
from gpupool.network import addresses as ipv4
from gpupool.network.balancing.model import BALANCER_ADDRESSES
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.model import Network, Subnet
from gpupool.network.routing.model import RouteHop, RoutePrefix, StaticRoute
from gpupool.network.routing.route_table import build_table
from gpupool.wire.network.routes import RouteIn


def parse_route(key: str, body: RouteIn, network: Network, subnet: str | None) -> StaticRoute:
    """Make a route of what was asked.

    Args:
        network: with all that is in it.
        subnet: public id of the subnet that it is for; None: it is for all of them.

    Raises:
        BadAddress, WrongState: of the prefix or the next hop.
        OverlappingSubnets: it would take addresses of a subnet away.
        NameTaken: another route has the prefix.
    """
    prefix = _parse_prefix(body.prefix)
    _check_usable(prefix)
    _refuse_without_ipv6(network, prefix)
    cidrs = [cidr for one in network.subnets for cidr in (one.cidr, one.cidr6)]
    inside = [str(cidr) for cidr in cidrs if cidr is not None and _is_inside(prefix, cidr)]
    if inside:
        raise OverlappingSubnets(
            f"{prefix} is of subnet {inside[0]}, whose jobs are reached directly",
            hint="a route leads to addresses outside of the network's subnets",
            clashing=inside,
        )
    if (body.via is None) == (not body.discard):
        raise WrongState(
            "a route has a next hop, or discards packets",
            hint="name one of both: --via ADDRESS or --discard",
        )
    if body.via is None and body.forwards:
        raise WrongState(
            "packets that are discarded have no next hop that could send others' packets",
            hint="leave --forwards out",
        )
    via = None if body.via is None else _parse_hop(body.via, network, prefix)
    forwards = _parse_forwards(body.forwards, prefix)
    refuse_repeated(network, prefix, subnet)
    return StaticRoute(key, prefix, via, subnet, forwards)


def check_subnet(cidr: RoutePrefix, routes: Iterable[RoutePrefix]) -> None:
    """Raise OverlappingSubnets where a new subnet would take addresses of static routes."""
    clashing = [str(prefix) for prefix in routes if _is_inside(prefix, cidr)]
    if clashing:
        raise OverlappingSubnets(
            f"routes lead to addresses of {cidr}: {', '.join(clashing)}",
            hint="gpupool network route-delete",
            clashing=clashing,
        )


def refuse_repeated(network: Network, prefix: RoutePrefix, subnet: str | None) -> None:
    """Raise NameTaken where the prefix has a route that a new one would stand against."""
    for route in build_table(network):
        if route.prefix != prefix or route.subnet != subnet:
            continue
        # A subnet has routes beside those of its network, so this one is of the same scope.
        raise NameTaken(
            f"{prefix} has a route already: {route.kind} {route.key}",
            hint=f"gpupool network route-list {network.name}; --subnet SUBNET makes one for the "
            "packets of one subnet",
        )


def _parse_prefix(text: str) -> RoutePrefix:
    return ipv6.parse_prefix(text) if ":" in text else ipv4.parse_prefix(text)


def _parse_forwards(texts: Iterable[str], prefix: RoutePrefix) -> tuple[RoutePrefix, ...]:
    """Parse the prefixes of other senders, which are of the family of the route."""
    found = {_parse_prefix(text) for text in texts}
    for one in found:
        _check_usable(one)
        if one.version != prefix.version:
            raise BadAddress(
                f"a route to {prefix} carries IPv{prefix.version}, and {one} is of IPv{one.version}",
                hint="make a route for each family",
            )
    return tuple(sorted(found, key=lambda one: (int(one.network_address), one.prefixlen)))


def _is_inside(prefix: RoutePrefix, cidr: RoutePrefix) -> bool:
    return prefix.prefixlen >= cidr.prefixlen and prefix.network_address in cidr


def _check_usable(prefix: RoutePrefix) -> None:
    is_special = prefix.is_loopback or prefix.is_multicast or prefix.is_link_local
    if isinstance(prefix, IPv4Network):
        pool = "load balancers"
        reserved: RoutePrefix = BALANCER_ADDRESSES
        example = "172.20.0.0/16, or 0.0.0.0/0"
    else:
        pool = "name servers and load balancers"
        reserved = ipv6.POOL_PREFIX
        example = "fd20:1:2::/48, or ::/0"
    # Everything overlaps these: what is special stays out of a route by its longer prefix.
    if prefix.prefixlen and (is_special or _is_inside(prefix, reserved)):
        raise BadAddress(
            f"{prefix} cannot be routed: loopback, link-local, multicast, or of {reserved}, which "
            f"is for {pool}",
            hint=f"name a prefix like {example} for everything",
        )


def _refuse_without_ipv6(network: Network, prefix: RoutePrefix) -> None:
    if isinstance(prefix, IPv6Network) and not network.has_ipv6:
        raise BadAddress(
            f"{prefix} is an IPv6 prefix, and no subnet of network {network.name} has IPv6",
            hint=f"gpupool network subnet-create {network.name} --cidr PREFIX --cidr6 auto",
        )


def _parse_hop(text: str, network: Network, prefix: RoutePrefix) -> RouteHop:
    """Parse the address of a next hop, of the family of the route."""
    if isinstance(prefix, IPv6Network):
        return _parse_hop6(text, network)
    try:
        address = IPv4Address(text)
    except ValueError as error:
        raise BadAddress(
            f"not an IPv4 address: {text[:60]!r}", hint="write it like 10.0.0.9"
        ) from error
    for subnet in network.subnets:
        if address not in subnet.cidr:
            continue
        reserved = _list_reserved(subnet)
        if address in reserved:
            raise BadAddress(
                f"{address} of {subnet.cidr} is {reserved[address]}",
                hint=f"the next hop is a job, which has an address from {subnet.cidr[2]} to "
                f"{subnet.cidr[-2]}",
            )
        return address
    raise _make_outside(network, address, [str(subnet.cidr) for subnet in network.subnets])


def _parse_hop6(text: str, network: Network) -> IPv6Address:
    address = ipv6.parse_address(text)
    cidrs = [subnet.cidr6 for subnet in network.subnets if subnet.cidr6 is not None]
    for cidr6 in cidrs:
        if address not in cidr6:
            continue
        reservation = ipv6.find_reservation(cidr6, address)
        if reservation is not None:
            raise BadAddress(
                f"{address} of {cidr6} is {reservation}",
                hint=f"the next hop is a job, which has an address from {cidr6[2]} on",
            )
        return address
    raise _make_outside(network, address, map(str, cidrs))


def _list_reserved(subnet: Subnet) -> dict[IPv4Address, str]:
    reserved = {
        subnet.cidr.network_address: "the subnet's own address",
        subnet.gateway: "the router's, which has the route",
        subnet.cidr.broadcast_address: "the broadcast address",
    }
    if subnet.probe is not None:
        reserved[subnet.probe] = "the one that probes of load balancers come from"
    return reserved


def _make_outside(network: Network, address: RouteHop, prefixes: Iterable[str]) -> BadAddress:
    return BadAddress(
        f"next hop {address} is outside of the network's subnets: {', '.join(prefixes)}",
        hint=f"name the address of a job of the network: gpupool network show {network.name}",
    )
