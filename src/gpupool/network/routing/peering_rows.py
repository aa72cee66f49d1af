"""Compiles one end of a peering to rows of an OVN northbound database (ovn-nb(5)). Pure.

A port of the network's router that names the other router's, a route for each prefix that the owner
agreed to, and policies that keep the network's own prefixes inside to which the other one did not.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from gpupool.network.ipv6.rows import list_link_networks
from gpupool.network.model import LINK_PREFIX, Network, PeeringEnd, make_mac
from gpupool.network.rows import NorthboundRow, Value

#: Of policies that drop by source, above those of static routes (`routing.rows`).
_HIDDEN_PRIORITY = 3000


def compile_peering(end: PeeringEnd) -> list[NorthboundRow]:
    """Compile an end to its rows, without the router that refers to them."""
    routes = [_compile_route(end, prefix) for prefix in end.all_prefixes]
    return [_compile_port(end), *routes, *_compile_hidden(end)]


def list_peering_keys(network: Network, table: str) -> frozenset[str]:
    """List the keys of the rows of a network's peerings in a table."""
    rows = (row for end in network.peerings for row in compile_peering(end))
    return frozenset(row.key for row in rows if row.table == table)


def _compile_port(end: PeeringEnd) -> NorthboundRow:
    """Compile this network's end of a link: two router ports that name each other."""
    return NorthboundRow(
        "Logical_Router_Port",
        _key_end(end),
        {
            "name": _name_end(end, end.is_requester),
            "mac": make_mac(0x1A if end.is_requester else 0x1E, end.id),
            "networks": tuple(sorted((f"{end.address}/{LINK_PREFIX}", *list_link_networks(end)))),
            "peer": (_name_end(end, not end.is_requester),),
        },
    )


def _compile_route(end: PeeringEnd, prefix: IPv4Network | IPv6Network) -> NorthboundRow:
    next_hop = end.next_hop if isinstance(prefix, IPv4Network) else end.next_hop6
    return NorthboundRow(
        "Logical_Router_Static_Route",
        _key_route(end, prefix),
        {"ip_prefix": str(prefix), "nexthop": str(next_hop)},
    )


def _compile_hidden(end: PeeringEnd) -> list[NorthboundRow]:
    """Compile what keeps packets out of a peering whose sources the other owner has not agreed to."""
    rows = list[NorthboundRow]()
    for family, version in (("ip4", 4), ("ip6", 6)):
        sources = ", ".join(str(one) for one in end.hidden if one.version == version)
        if sources:
            outport = _name_end(end, end.is_requester)
            match = f'outport == "{outport}" && {family}.src == {{{sources}}}'
            columns: dict[str, Value] = {
                "priority": _HIDDEN_PRIORITY,
                "match": match,
                "action": "drop",
            }
            key = f"{_key_end(end)}/hidden-{family}"
            rows.append(NorthboundRow("Logical_Router_Policy", key, columns))
    return rows


def _name_end(end: PeeringEnd, is_requester: bool) -> str:
    return f"gpupool-{end.key}-{'requester' if is_requester else 'accepter'}"


def _key_end(end: PeeringEnd) -> str:
    # Both ends are rows of one pool, so their keys differ.
    return f"peering/{end.key}/{'requester' if end.is_requester else 'accepter'}"


def _key_route(end: PeeringEnd, prefix: IPv4Network | IPv6Network) -> str:
    return f"{_key_end(end)}/{prefix}"
