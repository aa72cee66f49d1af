"""Compiles the way out of a network to Kube-OVN's gateway, its addresses, limits and rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.kubernetes.networks.kube_ovn import Json, name_network
from gpupool.kubernetes.resources.network_parts.network_gateways import (
    AddressForward,
    ExternalAddress,
    NetworkGateway,
)
from gpupool.kubernetes.resources.network_parts.subnets import NetworkSubnet

#: Megabits in a megabyte. A burst of one second of the rate: with a smaller one a TCP connection
#: gets about half of the limit (docs/measured).
_MEGABITS_PER_MEGABYTE = 8
_DIRECTIONS = ("ingress", "egress")
#: Ends of names. No address has a double hyphen in its own. Kube-OVN locks by name whatever the kind,
#: and waits for the gateway's pod meanwhile: a limit called like its address would wait for it.
_LIMIT = "--rate"
_FLOATING = "--floating"
#: Part of the name of the limit of a whole gateway, which no address can have.
_WHOLE_LIMIT = "gateway--whole"
#: Kube-OVN's filters are tried from the least number on and the first match decides. So an address
#: with a limit of its own is outside of the limit of the gateway.
_ADDRESS_PRIORITY = 1
_WHOLE_PRIORITY = 3
#: Interface of the gateway's pod that leads outside, as Kube-OVN's gateway image calls it.
_OUTSIDE = "net1"

#: Kind, part of the name, spec.
Part = tuple[str, str, Json]


def compile_gateway(
    tenant: str, gateway: NetworkGateway, subnets: tuple[NetworkSubnet, ...]
) -> Iterator[Part]:
    """Yield the objects of the gateway, in the order of creation."""
    if gateway.megabits is not None:
        yield "QoSPolicy", _WHOLE_LIMIT, _describe_whole_limit(gateway.megabits)
    for address in gateway.addresses:
        if address.megabits is not None:
            yield "QoSPolicy", f"{address.name}{_LIMIT}", _describe_limit(address.megabits)
    yield "VpcNatGateway", "", _describe_gateway(tenant, gateway)
    for address in gateway.addresses:
        yield "IptablesEIP", address.name, _describe_address(tenant, gateway, address)
    prefixes = {subnet.name: str(subnet.cidr) for subnet in subnets}
    for address in gateway.addresses:
        eip = name_network(tenant, address.name)
        for subnet in address.snat:
            spec = {"eip": eip, "internalCIDR": prefixes[subnet]}
            yield "IptablesSnatRule", f"{address.name}--{subnet}", spec
        if address.target is not None:
            floating = {"eip": eip, "internalIp": str(address.target)}
            yield "IptablesFIPRule", f"{address.name}{_FLOATING}", floating
    for forward in gateway.forwards:
        yield "IptablesDnatRule", forward.name, _describe_forward(tenant, forward)


def _describe_limit(megabits: int) -> Json:
    rules = [_describe_rate(one, megabits, _ADDRESS_PRIORITY) for one in _DIRECTIONS]
    return {"bindingType": "EIP", "shared": False, "bandwidthLimitRules": rules}


def _describe_whole_limit(megabits: int) -> Json:
    rules = []
    for direction in _DIRECTIONS:
        rate = _describe_rate(direction, megabits, _WHOLE_PRIORITY)
        rules.append({**rate, "interface": _OUTSIDE})
    # Kube-OVN refuses a policy of a gateway that is not shared, also where one gateway has it.
    return {"bindingType": "NATGW", "shared": True, "bandwidthLimitRules": rules}


def _describe_rate(direction: str, megabits: int, priority: int) -> Json:
    burst = max(1, -(-megabits // _MEGABITS_PER_MEGABYTE))
    return {
        "name": direction,
        "direction": direction,
        "rateMax": str(megabits),
        "burstMax": str(burst),
        "priority": priority,
    }


def _describe_gateway(tenant: str, gateway: NetworkGateway) -> Json:
    return {
        "vpc": name_network(tenant),
        "subnet": name_network(tenant, gateway.subnet),
        "lanIp": str(gateway.address),
        "externalSubnets": [gateway.external_subnet],
        "selector": [f"{key}: {value}" for key, value in gateway.node_selector],
        # Empty takes a limit away again.
        "qosPolicy": name_network(tenant, _WHOLE_LIMIT) if gateway.megabits is not None else "",
    }


def _describe_address(tenant: str, gateway: NetworkGateway, address: ExternalAddress) -> Json:
    spec: Json = {"natGwDp": name_network(tenant), "externalSubnet": gateway.external_subnet}
    if address.address is not None:
        spec["v4ip"] = str(address.address)
    limit = ""
    if address.megabits is not None:
        limit = name_network(tenant, f"{address.name}{_LIMIT}")
    return {**spec, "qosPolicy": limit}


def _describe_forward(tenant: str, forward: AddressForward) -> Json:
    return {
        "eip": name_network(tenant, forward.address),
        "externalPort": str(forward.port),
        "protocol": forward.protocol,
        "internalIp": str(forward.target),
        "internalPort": str(forward.target_port),
    }
