"""Compiles the network of a Tenant to Kube-OVN's objects. Pure and deterministic.

An object names only what gpupool decides. Whatever else it has is Kube-OVN's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.kubernetes.networks.judgement import JudgedPeering, NetworkVerdict, NetworkWish
from gpupool.kubernetes.networks.kube_ovn import API_VERSION, OWNER, Json, name_network
from gpupool.kubernetes.resources.tenant_network import (
    AddressForward,
    ExternalAddress,
    NetworkBalancer,
    NetworkGateway,
    NetworkSubnet,
    TenantNetwork,
)

#: Routes by destination, in Kube-OVN's words.
_BY_DESTINATION = "policyDst"
#: Megabits in a megabyte. A burst of one second of the rate: with a smaller one a TCP connection
#: gets about half of the limit (docs/measured).
_MEGABITS_PER_MEGABYTE = 8


def compile_network(
    wish: NetworkWish, network: TenantNetwork, verdict: NetworkVerdict
) -> list[Json]:
    """Return the objects of the network, in the order of creation."""
    make = _ObjectMaker(wish.name)
    objects = [make.build("Vpc", "", _describe_vpc(network, verdict))]
    for subnet in network.subnets:
        spec = _describe_subnet(wish, network, subnet, verdict.namespaces[subnet.name])
        objects.append(make.build("Subnet", subnet.name, spec))
    if network.gateway is not None:
        objects += _compile_gateway(make, wish.name, network.gateway, network.subnets)
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


def _describe_vpc(network: TenantNetwork, verdict: NetworkVerdict) -> Json:
    namespaces: set[str] = set()
    for spaces in verdict.namespaces.values():
        namespaces.update(spaces)
    routes = []
    for peering in verdict.peerings:
        routes += list(_list_routes(peering))
    # Without this route packets never reach the gateway: Kube-OVN adds none for it.
    if network.gateway is not None:
        routes.append(_describe_route("0.0.0.0/0", str(network.gateway.address)))
    spec: Json = {"namespaces": sorted(namespaces), "staticRoutes": routes}
    spec["vpcPeerings"] = []
    for peering in verdict.peerings:
        address = f"{_router_address(peering, peering.is_first)}/{peering.link.prefixlen}"
        spec["vpcPeerings"].append(
            {"remoteVpc": name_network(peering.peer), "localConnectIP": address}
        )
    return spec


def _list_routes(peering: JudgedPeering) -> Iterator[Json]:
    next_hop = _router_address(peering, not peering.is_first)
    for prefix in peering.prefixes:
        yield _describe_route(str(prefix), next_hop)


def _router_address(peering: JudgedPeering, is_first: bool) -> str:
    return str(peering.link[1 if is_first else 2])


def _describe_route(cidr: str, next_hop: str) -> Json:
    return {"cidr": cidr, "nextHopIP": next_hop, "policy": _BY_DESTINATION}


def _describe_subnet(
    wish: NetworkWish,
    network: TenantNetwork,
    subnet: NetworkSubnet,
    namespaces: tuple[str, ...],
) -> Json:
    reserved = [str(address) for address in network.list_reserved(subnet)]
    spec: Json = {
        "vpc": name_network(wish.name),
        "protocol": "IPv4",
        "cidrBlock": str(subnet.cidr),
        "gateway": str(subnet.gateway),
        # In Kube-OVN's order, which is that of strings.
        "excludeIps": sorted(reserved),
        "namespaces": list(namespaces),
        "natOutgoing": False,
        "private": False,
        "enableLb": True,
        "enableDHCP": True,
    }
    return spec if subnet.mtu is None else {**spec, "mtu": subnet.mtu}


def _compile_gateway(
    make: _ObjectMaker,
    tenant: str,
    gateway: NetworkGateway,
    subnets: tuple[NetworkSubnet, ...],
) -> Iterator[Json]:
    for address in gateway.addresses:
        if address.megabits is not None:
            yield make.build("QoSPolicy", address.name, _describe_limit(address.megabits))
    yield make.build("VpcNatGateway", "", _describe_gateway(tenant, gateway))
    for address in gateway.addresses:
        yield make.build("IptablesEIP", address.name, _describe_address(tenant, gateway, address))
    prefixes = {subnet.name: str(subnet.cidr) for subnet in subnets}
    for address in gateway.addresses:
        for subnet in address.snat:
            spec = {"eip": name_network(tenant, address.name), "internalCIDR": prefixes[subnet]}
            yield make.build("IptablesSnatRule", f"{address.name}--{subnet}", spec)
    for forward in gateway.forwards:
        yield make.build("IptablesDnatRule", forward.name, _describe_forward(tenant, forward))


def _describe_limit(megabits: int) -> Json:
    burst = max(1, -(-megabits // _MEGABITS_PER_MEGABYTE))
    rules = []
    for direction in ("ingress", "egress"):
        rules.append(
            {
                "name": direction,
                "direction": direction,
                "rateMax": str(megabits),
                "burstMax": str(burst),
                "priority": 1,
            }
        )
    return {"bindingType": "EIP", "shared": False, "bandwidthLimitRules": rules}


def _describe_gateway(tenant: str, gateway: NetworkGateway) -> Json:
    return {
        "vpc": name_network(tenant),
        "subnet": name_network(tenant, gateway.subnet),
        "lanIp": str(gateway.address),
        "externalSubnets": [gateway.external_subnet],
        "selector": [f"{key}: {value}" for key, value in gateway.node_selector],
    }


def _describe_address(tenant: str, gateway: NetworkGateway, address: ExternalAddress) -> Json:
    spec: Json = {"natGwDp": name_network(tenant), "externalSubnet": gateway.external_subnet}
    if address.address is not None:
        spec["v4ip"] = str(address.address)
    # Empty takes a limit away again.
    limit = name_network(tenant, address.name) if address.megabits is not None else ""
    return {**spec, "qosPolicy": limit}


def _describe_forward(tenant: str, forward: AddressForward) -> Json:
    return {
        "eip": name_network(tenant, forward.address),
        "externalPort": str(forward.port),
        "protocol": forward.protocol,
        "internalIp": str(forward.target),
        "internalPort": str(forward.target_port),
    }


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
