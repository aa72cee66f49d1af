"""Compiles the routes of a network to those of Kube-OVN's `Vpc`. Pure.

A subnet with routes of its own has a route table of its own (`Subnet.spec.routeTable`). OVN looks up
one table alone, so that table has the routes of the whole network too.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from gpupool.kubernetes.networks.judgement import JudgedPeering
from gpupool.kubernetes.networks.kube_ovn import Json, name_network
from gpupool.kubernetes.resources.network_parts.network_routes import NetworkRoute
from gpupool.kubernetes.resources.tenant_network import TenantNetwork

#: Routes by destination, in Kube-OVN's words.
_BY_DESTINATION = "policyDst"
#: Of the policies that discard. They exclude each other's packets, so their order is free.
_DISCARD_PRIORITY = 20_000
_EVERYWHERE = IPv4Network("0.0.0.0/0")


def compile_routes(
    tenant: str, network: TenantNetwork, peerings: tuple[JudgedPeering, ...]
) -> list[Json]:
    """Return `staticRoutes` of the `Vpc`: the main table first, then one for each subnet."""
    main = dict(_list_peer_routes(peerings))
    # Without this route packets never reach the gateway: Kube-OVN adds none for it.
    if network.gateway is not None:
        main[str(_EVERYWHERE)] = str(network.gateway.address)
    main |= _list_own_routes(network, None)
    routes = list(_describe_table(main, ""))
    for subnet in network.subnets:
        table = name_table(tenant, network, subnet.name)
        if table:
            routes += _describe_table({**main, **_list_own_routes(network, subnet.name)}, table)
    return routes


def compile_discards(network: TenantNetwork, peerings: tuple[JudgedPeering, ...]) -> list[Json]:
    """Return `policyRoutes` of the `Vpc`.

    A policy comes before every route. So each one leaves packets out for which the network has a
    longer prefix: the longest prefix decides, as among routes.
    """
    policies = []
    for route in network.routes:
        if route.via is None:
            policies.append(
                {
                    "priority": _DISCARD_PRIORITY,
                    "match": _match_discarded(route, network, peerings),
                    "action": "drop",
                }
            )
    return policies


def name_table(tenant: str, network: TenantNetwork, subnet: str) -> str:
    """Return the route table of the subnet; empty: the main one."""
    if _list_own_routes(network, subnet):
        return name_network(tenant, subnet)
    return ""


def _list_peer_routes(peerings: tuple[JudgedPeering, ...]) -> Iterator[tuple[str, str]]:
    for peering in peerings:
        number = 2 if peering.is_first else 1
        for prefix in peering.prefixes:
            link = peering.link if prefix.version == 4 else peering.link6
            assert link is not None, f"{prefix} of {peering.peer} has no link of its family"
            yield str(prefix), str(link[number])


def _list_own_routes(network: TenantNetwork, subnet: str | None) -> dict[str, str]:
    """Return next hops by prefix."""
    own = {}
    for route in network.routes:
        if route.subnet == subnet and route.via is not None:
            own[str(route.prefix)] = str(route.via)
    return own


def _describe_table(hops: dict[str, str], table: str) -> Iterator[Json]:
    for prefix, hop in hops.items():
        yield {"cidr": prefix, "nextHopIP": hop, "policy": _BY_DESTINATION, "routeTable": table}


def _match_discarded(
    route: NetworkRoute, network: TenantNetwork, peerings: tuple[JudgedPeering, ...]
) -> str:
    cidrs = {one.name: one.cidr for one in network.subnets}
    terms = [f"ip4.dst == {route.prefix}"]
    if route.subnet is not None:
        terms.insert(0, f"ip4.src == {cidrs[route.subnet]}")
    reached = list(cidrs.values())
    for peering in peerings:
        reached += [one for one in peering.prefixes if isinstance(one, IPv4Network)]
    scoped = []
    for other in network.routes:
        if other.subnet is None:
            reached.append(other.prefix)
        elif route.subnet in (None, other.subnet):
            scoped.append(other)
    for prefix in sorted(set(reached)):
        if _is_longer(prefix, route.prefix):
            terms.append(f"ip4.dst != {prefix}")
    for other in scoped:
        if _is_longer(other.prefix, route.prefix) and other.subnet is not None:
            terms.append(f"!(ip4.src == {cidrs[other.subnet]} && ip4.dst == {other.prefix})")
    return " && ".join(terms)


def _is_longer(prefix: IPv4Network, other: IPv4Network) -> bool:
    return prefix != other and prefix.subnet_of(other)
