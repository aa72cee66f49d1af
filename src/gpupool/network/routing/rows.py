"""Compiles static routes to rows of an OVN northbound database (ovn-nb(5)). Pure.

A route of the whole network is a static route of its router. One of a subnet is a policy of the
router, whose priority grows with the prefix; longer prefixes of the network get policies that let
packets pass on, so that the longest prefix decides there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import TypeVar

from gpupool.network.balancing.model import RESOLVER_ADDRESSES
from gpupool.network.ipv6.addresses import RESOLVER_PREFIX
from gpupool.network.model import Network, Port
from gpupool.network.routing.model import RoutePrefix, StaticRoute
from gpupool.network.routing.route_table import TableRoute, build_table
from gpupool.network.rows import NorthboundRow, Value

#: Of one of the two families.
_Prefix = TypeVar("_Prefix", IPv4Network, IPv6Network)

#: Priorities of policies (0 to 32767): that of a line is 100. Two for each length of a prefix, for
#: the route of a subnet goes before one of the network with the same prefix.
_FIRST_PRIORITY = 1000
_HOP_PRIORITY = 2000
_FOREIGN_PRIORITY = 3000
_ROUTES = "Logical_Router_Static_Route"
_POLICIES = "Logical_Router_Policy"
_PORTS = "Logical_Router_Port"


def add_routes(network: Network, rows: Iterable[NorthboundRow]) -> tuple[NorthboundRow, ...]:
    """Add the static routes of a network to its rows, and take those away that they replace.

    Args:
        rows: all others of the network.
    """
    every = tuple(rows)
    if not network.routes:
        return every
    ports = {row.key: str(row.columns["name"]) for row in every if row.table == _PORTS}
    made = _compile_routes(network, ports)
    replaced = {str(route.prefix) for route in network.routes if route.subnet is None}
    present = [
        row for row in every if row.table != _ROUTES or row.columns["ip_prefix"] not in replaced
    ]
    gone = {row.key for row in every} - {row.key for row in present}
    router = next(row for row in present if row.table == "Logical_Router")
    references = {
        **router.references,
        "static_routes": (router.references["static_routes"] - gone) | _keys(made, _ROUTES),
        "policies": router.references["policies"] | _keys(made, _POLICIES),
    }
    changed = replace(router, references=references)
    return (*(changed if row is router else row for row in present), *made)


def list_forwarded(routes: Iterable[StaticRoute], port: Port) -> list[str]:
    """List what a port sends and receives besides its own packets."""
    found = set[RoutePrefix]()
    for route in routes:
        if route.via in (port.address, port.address6):
            found.update(route.list_forwarded())
    return [str(prefix) for prefix in sorted(found, key=_rank)]


def _rank(prefix: RoutePrefix) -> tuple[int, int, int]:
    return (prefix.version, int(prefix.network_address), prefix.prefixlen)


def _keys(rows: Iterable[NorthboundRow], table: str) -> frozenset[str]:
    return frozenset(row.key for row in rows if row.table == table)


def _compile_routes(network: Network, ports: Mapping[str, str]) -> list[NorthboundRow]:
    """Compile the routes.

    Args:
        ports: names of the router's ports, by the keys of their rows.
    """
    rows = list[NorthboundRow]()
    for route in network.routes:
        if route.subnet is None:
            hop = "discard" if route.via is None else str(route.via)
            columns: dict[str, Value] = {"ip_prefix": str(route.prefix), "nexthop": hop}
            rows.append(NorthboundRow(_ROUTES, f"route/{route.key}", columns))
    table = build_table(network)
    inner = {subnet.key: f"router-port/{subnet.key}" for subnet in network.subnets}
    for subnet in sorted({route.subnet for route in network.routes if route.subnet is not None}):
        rows += _compile_subnet(table, subnet, ports[inner[subnet]])
    exits = ports.keys() - inner.values()
    rows += _compile_bound(network, sorted(ports[key] for key in exits))
    return rows


def _compile_subnet(table: Iterable[TableRoute], subnet: str, port: str) -> list[NorthboundRow]:
    """Compile the routes of a subnet, with what goes before them.

    Args:
        port: name of the router's port in the subnet.
    """
    active = [route for route in table if route.is_active]
    ours = [route for route in active if route.subnet == subnet]
    inside = f'inport == "{port}"'
    rows = list[NorthboundRow]()
    for route in active:
        priority = _FIRST_PRIORITY + 2 * route.prefix.prefixlen
        match = f"{inside} && ip{route.prefix.version}.dst == {route.prefix}"
        if route.subnet == subnet:
            rows.append(_make_own_policy(route, priority + 1, match))
        elif route.subnet is None and _is_longer(route.prefix, ours):
            key = f"route-pass/{subnet}/{route.prefix}"
            rows.append(_make_policy(key, priority, match, "allow"))
    hops = {route.via for route in ours if route.via is not None}
    for hop in sorted(hops, key=lambda one: (one.version, int(one))):
        # Else a next hop of the same subnet would get back what it sends on.
        match = f"{inside} && ip{hop.version}.src == {hop}"
        rows.append(_make_policy(f"route-hop/{subnet}/{hop}", _HOP_PRIORITY, match, "allow"))
    return rows


def _is_longer(prefix: RoutePrefix, routes: Iterable[TableRoute]) -> bool:
    """Whether a prefix is inside of that of a route, and longer."""
    return any(
        prefix.version == route.prefix.version
        and prefix.prefixlen > route.prefix.prefixlen
        and prefix.network_address in route.prefix
        for route in routes
    )


def _make_own_policy(route: TableRoute, priority: int, match: str) -> NorthboundRow:
    key = f"route/{route.key}"
    if route.via is None:
        return _make_policy(key, priority, match, "drop")
    return _make_policy(key, priority, match, "reroute", str(route.via))


def _make_policy(key: str, priority: int, match: str, action: str, *hops: str) -> NorthboundRow:
    return NorthboundRow(
        _POLICIES,
        key,
        {"priority": priority, "match": match, "action": action, "nexthops": hops},
    )


def _compile_bound(network: Network, exits: Sequence[str]) -> list[NorthboundRow]:
    """Compile what keeps packets with foreign sources inside of the network.

    A job that forwards may send them; a peer's security groups and the machine trust that a network
    sends packets of its own subnets alone.

    Args:
        exits: names of the router's ports that lead out of the network.
    """
    own = [*(subnet.cidr for subnet in network.subnets), RESOLVER_ADDRESSES]
    own6 = [*(subnet.cidr6 for subnet in network.subnets if subnet.cidr6), RESOLVER_PREFIX]
    forwarded = [prefix for route in network.routes for prefix in route.list_forwarded()]
    foreign: dict[str, Sequence[RoutePrefix]] = {
        "ip4": subtract_prefixes([one for one in forwarded if isinstance(one, IPv4Network)], own),
        "ip6": subtract_prefixes([one for one in forwarded if isinstance(one, IPv6Network)], own6),
    }
    outports = ", ".join(f'"{name}"' for name in exits)
    rows = list[NorthboundRow]()
    for family, prefixes in foreign.items():
        if not exits or not prefixes:
            continue
        sources = ", ".join(map(str, prefixes))
        match = f"outport == {{{outports}}} && {family}.src == {{{sources}}}"
        key = f"route-bound{'' if family == 'ip4' else '6'}/{network.key}"
        rows.append(_make_policy(key, _FOREIGN_PRIORITY, match, "drop"))
    return rows


def subtract_prefixes(prefixes: Iterable[_Prefix], others: Iterable[_Prefix]) -> list[_Prefix]:
    """Return prefixes for the addresses of the first ones that are in none of the others."""
    left = set(prefixes)
    for other in others:
        for prefix in [one for one in left if one.overlaps(other)]:
            left.discard(prefix)
            if other.subnet_of(prefix) and other != prefix:
                left.update(prefix.address_exclude(other))
    return sorted(left - _find_covered(left))


def _find_covered(prefixes: Iterable[_Prefix]) -> set[_Prefix]:
    """Find the prefixes that are inside of another one."""
    covered = set[_Prefix]()
    last: _Prefix | None = None
    # Each prefix comes right after those that it is inside of.
    for prefix in sorted(prefixes):
        if last is not None and prefix.subnet_of(last):
            covered.add(prefix)
        else:
            last = prefix
    return covered
