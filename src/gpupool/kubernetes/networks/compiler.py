"""Compiles the network of a Tenant to Kube-OVN's objects. Pure and deterministic.

An object names only what gpupool decides. Whatever else it has is Kube-OVN's. A field that a network
does not use any more is written empty, so that Kube-OVN takes back what it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.kubernetes.networks.gateway_compiler import compile_gateway
from gpupool.kubernetes.networks.judgement import JudgedPeering, NetworkVerdict, NetworkWish
from gpupool.kubernetes.networks.kube_ovn import API_VERSION, OWNER, Json, name_network
from gpupool.kubernetes.networks.route_compiler import (
    compile_discards,
    compile_routes,
    name_table,
)
from gpupool.kubernetes.networks.traffic_compiler import compile_traffic
from gpupool.kubernetes.resources.network_parts.subnets import NetworkSubnet
from gpupool.kubernetes.resources.tenant_network import NetworkBalancer, TenantNetwork


def compile_network(
    wish: NetworkWish, network: TenantNetwork, verdict: NetworkVerdict
) -> list[Json]:
    """Return the objects of the network, in the order of creation."""
    make = _ObjectMaker(wish.name)
    objects = [make.build("Vpc", "", _describe_vpc(wish.name, network, verdict))]
    for subnet in network.subnets:
        spec = _describe_subnet(wish, network, subnet, verdict.namespaces[subnet.name])
        objects.append(make.build("Subnet", subnet.name, spec))
    if network.gateway is not None:
        for kind, part, spec in compile_gateway(wish.name, network.gateway, network.subnets):
            objects.append(make.build(kind, part, spec))
    for balancer in network.balancers:
        objects.append(make.build("SwitchLBRule", balancer.name, _describe_balancer(balancer)))
    return objects


class _ObjectMaker:
    """Makes objects of one Tenant.

    They name it in a label and not as their owner: the API server would delete them all at once, and
    Kube-OVN needs an order and help with it (`object_changes`).
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    def build(self, kind: str, part: str, spec: Mapping[str, Any]) -> Json:
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {
                "name": name_network(self._tenant, part),
                "labels": {OWNER: self._tenant},
            },
            "spec": dict(spec),
        }


def _describe_vpc(tenant: str, network: TenantNetwork, verdict: NetworkVerdict) -> Json:
    namespaces: set[str] = set()
    for spaces in verdict.namespaces.values():
        namespaces.update(spaces)
    peers = []
    for peering in verdict.peerings:
        remote = name_network(peering.peer)
        peers.append({"remoteVpc": remote, "localConnectIP": _describe_link(peering)})
    return {
        "namespaces": sorted(namespaces),
        "staticRoutes": compile_routes(tenant, network, verdict.peerings),
        "policyRoutes": compile_discards(network, verdict.peerings),
        "vpcPeerings": peers,
    }


def _describe_link(peering: JudgedPeering) -> str:
    number = 1 if peering.is_first else 2
    addresses = [f"{peering.link[number]}/{peering.link.prefixlen}"]
    if peering.link6 is not None:
        addresses.append(f"{peering.link6[number]}/{peering.link6.prefixlen}")
    return ",".join(addresses)


def _describe_subnet(
    wish: NetworkWish,
    network: TenantNetwork,
    subnet: NetworkSubnet,
    namespaces: tuple[str, ...],
) -> Json:
    reserved = [str(address) for address in network.list_reserved(subnet)]
    is_dual = subnet.cidr6 is not None
    spec: Json = {
        "vpc": name_network(wish.name),
        "protocol": "Dual" if is_dual else "IPv4",
        "cidrBlock": f"{subnet.cidr},{subnet.cidr6}" if is_dual else str(subnet.cidr),
        "gateway": f"{subnet.gateway},{subnet.gateway6}" if is_dual else str(subnet.gateway),
        # In Kube-OVN's order, which is that of strings.
        "excludeIps": sorted(reserved),
        "namespaces": list(namespaces),
        "natOutgoing": False,
        "private": False,
        "enableLb": True,
        "enableDHCP": True,
        "acls": compile_traffic(subnet),
        "routeTable": name_table(wish.name, network, subnet.name),
    }
    return spec if subnet.mtu is None else {**spec, "mtu": subnet.mtu}


def _describe_balancer(balancer: NetworkBalancer) -> Json:
    ports = []
    for port in balancer.ports:
        ports.append(
            {
                "name": f"{port.protocol}-{port.port}",
                "port": port.port,
                "targetPort": port.target_port,
                "protocol": port.protocol.upper(),
            }
        )
    return {
        "vip": str(balancer.address),
        "namespace": balancer.namespace,
        "selector": [f"{key}:{value}" for key, value in balancer.selector],
        "sessionAffinity": "None",
        "ports": ports,
    }
