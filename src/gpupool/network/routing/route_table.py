"""The effective route table of a network: what decides where a packet goes. Pure.

The longest prefix decides. Of equal ones the route of the packet's own subnet is first, then the
kinds in the order of `KINDS`. The compiler, `network route-list` and `network why` read this table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Literal

from gpupool.network.model import Network
from gpupool.network.routing.model import RouteHop, RoutePrefix

RouteKind = Literal["connected", "static", "peering", "line", "gateway"]
#: Which of two routes with the same prefix is in force: the first.
KINDS: Final[tuple[RouteKind, ...]] = ("connected", "static", "peering", "line", "gateway")


@dataclass(frozen=True)
class TableRoute:
    """A route of the table.

    Attributes:
        key: public id of the object that it comes from.
        via: next hop; None: the subnet itself, or packets are discarded.
        subnet: public id of the subnet whose packets it is for; None: those of every subnet.
        is_active: whether it is in force; else another one has the same prefix.
    """

    kind: RouteKind
    key: str
    prefix: RoutePrefix
    via: RouteHop | None = None
    subnet: str | None = None
    is_active: bool = True

    @property
    def is_discard(self) -> bool:
        return self.kind == "static" and self.via is None


def build_table(network: Network) -> tuple[TableRoute, ...]:
    """Build the table: by prefix, IPv4 first, in each prefix the deciding route first."""
    routes = sorted(_list_routes(network), key=_rank)
    table = list[TableRoute]()
    taken = set[tuple[RoutePrefix, str | None]]()
    for route in routes:
        place = (route.prefix, route.subnet)
        table.append(
            TableRoute(
                route.kind, route.key, route.prefix, route.via, route.subnet, place not in taken
            )
        )
        taken.add(place)
    return tuple(table)


def find_route(
    table: Iterable[TableRoute], subnet: str, source: RouteHop, target: RouteHop
) -> TableRoute | None:
    """Find the route that decides about a packet; None: no route takes it.

    Args:
        subnet: public id of the subnet that the packet comes from.
        source: a next hop of its own subnet's routes is not led back to itself.
    """
    found: TableRoute | None = None
    ours = [route for route in table if route.is_active and route.subnet in (None, subnet)]
    hops = {route.via for route in ours if route.subnet is not None}
    for route in ours:
        if target not in route.prefix or (route.subnet is not None and source in hops):
            continue
        if found is None or _is_before(route, found):
            found = route
    return found


def _is_before(route: TableRoute, other: TableRoute) -> bool:
    if route.prefix.prefixlen != other.prefix.prefixlen:
        return route.prefix.prefixlen > other.prefix.prefixlen
    return route.subnet is not None and other.subnet is None


def _rank(route: TableRoute) -> tuple[int, int, int, str, int, str]:
    prefix = route.prefix
    kind = KINDS.index(route.kind)
    place = (prefix.version, int(prefix.network_address), prefix.prefixlen)
    return (*place, route.subnet or "", kind, route.key)


def _list_routes(network: Network) -> list[TableRoute]:
    routes = [TableRoute("connected", one.key, one.cidr) for one in network.subnets]
    for subnet in network.subnets:
        if subnet.cidr6 is not None:
            routes.append(TableRoute("connected", subnet.key, subnet.cidr6))
    for static in network.routes:
        routes.append(TableRoute("static", static.key, static.prefix, static.via, static.subnet))
    for end in network.peerings:
        routes += [TableRoute("peering", end.key, one, end.next_hop) for one in end.prefixes]
        routes += [TableRoute("peering", end.key, one, end.next_hop6) for one in end.prefixes6]
    for line in network.lines:
        routes.append(TableRoute("line", line.key, line.link))
        routes += [TableRoute("line", line.key, one, line.next_hop) for one in line.list_routes()]
    if network.gateway is not None:
        everything = IPv4Network("0.0.0.0/0")
        routes.append(TableRoute("gateway", network.key, everything, network.gateway.next_hop))
        if network.gateway.address6 is not None:
            hop = network.gateway.next_hop6
            routes.append(TableRoute("gateway", network.key, IPv6Network("::/0"), hop))
    return routes
