"""The way out of a Tenant's network: addresses outside, their limits, and ports that lead in. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from gpupool.base.errors import BadOption
from gpupool.kubernetes.resources.network_parts.subnets import (
    NetworkSubnet,
    check_inside,
    find_subnet,
)
from gpupool.kubernetes.resources.network_parts.values import (
    PROTOCOLS,
    Json,
    check_host,
    check_names,
    read_address,
    read_name,
)


@dataclass(frozen=True)
class ExternalAddress:
    """An address outside of the network.

    Attributes:
        address: None: Kube-OVN chooses one of the external subnet.
        megabits: limit in either direction, in Mbit/s; None: none.
        snat: names of the subnets whose packets leave with it.
        target: address in the network that has this one for itself (a floating address); None:
            it belongs to no single one.
    """

    name: str
    address: IPv4Address | None = None
    megabits: int | None = None
    snat: tuple[str, ...] = ()
    target: IPv4Address | None = None


@dataclass(frozen=True)
class AddressForward:
    """A port of an external address that leads to an address in the network."""

    name: str
    address: str
    port: int
    protocol: str
    target: IPv4Address
    target_port: int


@dataclass(frozen=True)
class NetworkGateway:
    """The way out.

    Attributes:
        external_subnet: the Kube-OVN subnet outside, made by the cluster's operator.
        subnet: name of the subnet that the gateway stands in.
        address: of the gateway in that subnet.
        megabits: limit of all addresses without one of their own, together, in either direction,
            in Mbit/s; None: none.
        node_selector: labels of the nodes that may carry it.
    """

    external_subnet: str
    subnet: str
    address: IPv4Address
    megabits: int | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    addresses: tuple[ExternalAddress, ...] = ()
    forwards: tuple[AddressForward, ...] = ()


def read_gateway(found: Json, subnets: tuple[NetworkSubnet, ...]) -> NetworkGateway:
    """Read the gateway. Raises BadAddress, BadOption."""
    subnet = find_subnet(found.get("subnet") or subnets[0].name, subnets, "the gateway")
    address = read_address(found.get("address"))
    check_host(address, subnet.cidr, f"subnet {subnet.name}")
    addresses = tuple(_read_external(one, subnets) for one in found.get("addresses") or ())
    check_names("addresses", addresses)
    forwards = tuple(_read_forward(one, addresses, subnets) for one in found.get("forwards") or ())
    check_names("forwards", forwards)
    _check_doors(forwards)
    _check_floating(addresses, forwards)
    if not found.get("externalSubnet"):
        raise BadOption(
            "the gateway names no externalSubnet", hint="kubectl get subnets.kubeovn.io lists them"
        )
    return NetworkGateway(
        external_subnet=found["externalSubnet"],
        subnet=subnet.name,
        address=address,
        megabits=found.get("megabits"),
        node_selector=tuple(sorted((found.get("nodeSelector") or {}).items())),
        addresses=addresses,
        forwards=forwards,
    )


def _read_external(found: Json, subnets: tuple[NetworkSubnet, ...]) -> ExternalAddress:
    name = read_name(found)
    address = read_address(found["address"]) if found.get("address") else None
    snat = tuple(sorted(set(found.get("snat") or ())))
    for one in snat:
        find_subnet(one, subnets, f"address {name}")
    target = None
    if found.get("target"):
        target = read_address(found["target"])
        check_inside(target, subnets, f"address {name} belongs to")
    return ExternalAddress(name, address, found.get("megabits"), snat, target)


def _read_forward(
    found: Json, addresses: tuple[ExternalAddress, ...], subnets: tuple[NetworkSubnet, ...]
) -> AddressForward:
    name = read_name(found)
    known = [one.name for one in addresses]
    if found.get("address") not in known:
        raise BadOption(
            f"forward {name} names the address {found.get('address')!r}, which the gateway lacks",
            hint=f"it has {', '.join(known) or 'none'}",
        )
    target = read_address(found.get("target"))
    check_inside(target, subnets, f"forward {name} leads to")
    port = found["port"]
    return AddressForward(
        name,
        found["address"],
        port,
        found.get("protocol") or PROTOCOLS[0],
        target,
        found.get("targetPort") or port,
    )


def _check_doors(forwards: Iterable[AddressForward]) -> None:
    doors: dict[tuple[str, int, str], str] = {}
    for one in forwards:
        other = doors.setdefault((one.address, one.port, one.protocol), one.name)
        if other != one.name:
            raise BadOption(
                f"forwards {other} and {one.name} both take port {one.port}/{one.protocol}"
                f" of {one.address}"
            )


def _check_floating(
    addresses: Iterable[ExternalAddress], forwards: Iterable[AddressForward]
) -> None:
    """A floating address is one pod's alone, and a pod has one: its packets leave with it."""
    targets: dict[IPv4Address, str] = {}
    shared = {one.address: f"forward {one.name}" for one in forwards}
    for one in addresses:
        if one.target is None:
            continue
        user = f"snat of {', '.join(one.snat)}" if one.snat else shared.get(one.name)
        if user is not None:
            raise BadOption(
                f"address {one.name} belongs to {one.target} alone and is also used by {user}",
                hint="take another address for one of them",
            )
        other = targets.setdefault(one.target, one.name)
        if other != one.name:
            raise BadOption(f"addresses {other} and {one.name} both belong to {one.target}")
