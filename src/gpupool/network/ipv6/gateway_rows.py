"""Compiles what IPv6 adds to the gateway of a network: rows of an OVN northbound database. Pure.

Jobs have unique local addresses, which nothing outside leads to, so the gateway translates them to
its own; the machine behind the cable translates that to one of the machine's, as for IPv4.
"""

from __future__ import annotations

from ipaddress import IPv6Network

from gpupool.network.ipv6.addresses import RESOLVER_PREFIX, SUBNET_LENGTH
from gpupool.network.model import Gateway, Network
from gpupool.network.rows import NorthboundRow

_NAT = "NAT"
_ROUTE = "Logical_Router_Static_Route"
_POLICY = "Logical_Router_Policy"
#: As that of IPv4: above those of lines and routes.
_POLICY_PRIORITY = 4000


def compile_gateway6(network: Network) -> list[NorthboundRow]:
    """Compile what a gateway adds for IPv6; nothing where it carries IPv4 alone."""
    gateway = network.gateway
    if gateway is None or gateway.address6 is None:
        return []
    prefixes = {f"uplink-nat6/{one.key}": one.cidr6 for one in network.subnets if one.cidr6}
    # The resolver asks name servers outside.
    prefixes[f"resolver-nat6/{network.key}"] = RESOLVER_PREFIX
    others = f"ip6.dst == {gateway.uplink6} && ip6.dst != {gateway.next_hop6}"
    return [
        NorthboundRow(
            _ROUTE,
            f"uplink-route6/{network.key}",
            {"ip_prefix": "::/0", "nexthop": str(gateway.next_hop6)},
        ),
        # As for IPv4: gateways share a cable, and no tenant reaches another one over it.
        NorthboundRow(
            _POLICY,
            f"uplink-policy6/{network.key}",
            {"priority": _POLICY_PRIORITY, "match": others, "action": "drop"},
        ),
        *(_compile_nat(key, gateway, prefix) for key, prefix in prefixes.items()),
    ]


def list_gateway_networks6(gateway: Gateway) -> list[str]:
    """List the IPv6 networks of a router's port to the uplink."""
    return [] if gateway.address6 is None else [f"{gateway.address6}/{SUBNET_LENGTH}"]


def list_gateway_keys6(network: Network, table: str) -> frozenset[str]:
    """List the keys of the rows of a table that the router refers to."""
    return frozenset(row.key for row in compile_gateway6(network) if row.table == table)


def _compile_nat(key: str, gateway: Gateway, prefix: IPv6Network) -> NorthboundRow:
    columns = {"type": "snat", "external_ip": str(gateway.address6), "logical_ip": str(prefix)}
    return NorthboundRow(_NAT, key, columns)
