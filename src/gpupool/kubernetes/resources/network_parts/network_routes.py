"""Routes of a Tenant's network. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from gpupool.base.errors import BadAddress, BadOption
from gpupool.kubernetes.resources.network_parts.subnets import (
    NetworkSubnet,
    check_inside,
    find_subnet,
)
from gpupool.kubernetes.resources.network_parts.values import Json, read_address, read_prefix


@dataclass(frozen=True)
class NetworkRoute:
    """Where packets to a prefix go.

    Attributes:
        via: address in the network that forwards them; None: they are discarded.
        subnet: whose packets it is for; None: those of all subnets.
    """

    prefix: IPv4Network
    via: IPv4Address | None = None
    subnet: str | None = None


def read_routes(
    found: Json, subnets: tuple[NetworkSubnet, ...], has_gateway: bool
) -> tuple[NetworkRoute, ...]:
    """Read the routes. Raises BadAddress, BadOption."""
    routes: dict[tuple[IPv4Network, str | None], NetworkRoute] = {}
    for one in found.get("routes") or ():
        route = _read_route(one, subnets)
        if (route.prefix, route.subnet) in routes:
            raise BadOption(f"two routes are for {_describe_scope(route)}")
        routes[route.prefix, route.subnet] = route
    for route in routes.values():
        _check_discards(route, routes)
        if has_gateway and route.prefix.prefixlen == 0 and route.subnet is None:
            raise BadOption(
                f"the route to {route.prefix} and the gateway both lead out of the network",
                hint="name the subnet whose packets take the route",
            )
    return tuple(routes.values())


def _read_route(found: Json, subnets: tuple[NetworkSubnet, ...]) -> NetworkRoute:
    prefix = read_prefix(found.get("prefix"))
    for one in subnets:
        if prefix.subnet_of(one.cidr):
            raise BadAddress(
                f"the route to {prefix} is inside subnet {one.name} ({one.cidr}),"
                " which its router reaches directly"
            )
    subnet = found.get("subnet") or None
    if subnet is not None:
        find_subnet(subnet, subnets, f"the route to {prefix}")
    if bool(found.get("via")) == bool(found.get("discard")):
        raise BadOption(
            f"the route to {prefix} needs a next hop, or to discard, and not both",
            hint="via: 10.1.0.9, or discard: true",
        )
    via = None
    if found.get("via"):
        via = read_address(found["via"])
        check_inside(via, subnets, f"the route to {prefix} goes through")
        for one in subnets:
            if via == one.gateway:
                raise BadAddress(f"the route to {prefix} goes through {via}, the router itself")
    return NetworkRoute(prefix, via, subnet)


def _check_discards(
    route: NetworkRoute, routes: dict[tuple[IPv4Network, str | None], NetworkRoute]
) -> None:
    """Kube-OVN discards by policies, which come before routes: of two for the same prefix the one
    of the subnet would not be first."""
    whole = routes.get((route.prefix, None))
    if route.subnet is None or whole is None:
        return
    if whole.via is None or route.via is None:
        raise BadOption(
            f"of the routes for {_describe_scope(route)} and for the whole network one discards",
            hint="write one for each subnet",
        )


def _describe_scope(route: NetworkRoute) -> str:
    where = "" if route.subnet is None else f" of subnet {route.subnet}"
    return f"{route.prefix}{where}"
