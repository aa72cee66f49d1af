"""The network of a Tenant as operators write it (`spec.network`), read and checked. Pure.

What is wrong within one object is refused here. What depends on other Tenants (namespaces, peers)
is judged in `networks/judgement`. See docs/decisions/0077-tenant-networks-on-kubernetes.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from itertools import combinations
from typing import Any

from gpupool.base.errors import BadAddress, BadOption, OverlappingSubnets

#: Names of Tenants with a network and of its parts. A double hyphen separates them in the names of
#: Kube-OVN's objects.
NAME = "^[a-z0-9]+(-[a-z0-9]+)*$"
#: Characters: names of Kube-OVN's objects become labels of pods, which have 63.
LONGEST_PART = 20
#: Addresses between the routers of peered networks.
LINKS = IPv4Network("169.254.0.0/16")
PROTOCOLS = ("tcp", "udp")

Json = Mapping[str, Any]


@dataclass(frozen=True)
class NetworkSubnet:
    """A range of addresses, and the namespaces whose pods get them.

    Attributes:
        namespaces: empty: all of the tenant's.
        excluded: addresses that no pod gets by itself.
        mtu: in bytes; None: Kube-OVN's own.
    """

    name: str
    cidr: IPv4Network
    gateway: IPv4Address
    namespaces: tuple[str, ...] = ()
    excluded: tuple[IPv4Address, ...] = ()
    mtu: int | None = None


@dataclass(frozen=True)
class ExternalAddress:
    """An address outside of the network.

    Attributes:
        address: None: Kube-OVN chooses one of the external subnet.
        megabits: limit in either direction, in Mbit/s; None: none.
        snat: names of the subnets whose packets leave with it.
    """

    name: str
    address: IPv4Address | None = None
    megabits: int | None = None
    snat: tuple[str, ...] = ()


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
        node_selector: labels of the nodes that may carry it.
    """

    external_subnet: str
    subnet: str
    address: IPv4Address
    node_selector: tuple[tuple[str, str], ...] = ()
    addresses: tuple[ExternalAddress, ...] = ()
    forwards: tuple[AddressForward, ...] = ()


@dataclass(frozen=True)
class BalancedPort:
    """A port of a balancer's address."""

    port: int
    target_port: int
    protocol: str


@dataclass(frozen=True)
class NetworkBalancer:
    """An address that spreads connections over the pods of one namespace with these labels."""

    name: str
    address: IPv4Address
    namespace: str
    selector: tuple[tuple[str, str], ...]
    ports: tuple[BalancedPort, ...]


@dataclass(frozen=True)
class TenantNetwork:
    """The network of one Tenant.

    Attributes:
        peers: Tenants that it wants to be joined with; each must name this one.
    """

    subnets: tuple[NetworkSubnet, ...]
    peers: tuple[str, ...] = ()
    gateway: NetworkGateway | None = None
    balancers: tuple[NetworkBalancer, ...] = ()

    @classmethod
    def from_json(cls, found: Json) -> TenantNetwork:
        """Read it. Raises BadAddress, BadOption, OverlappingSubnets."""
        subnets = tuple(_read_subnet(one) for one in found.get("subnets") or ())
        if not subnets:
            raise BadOption("the network has no subnet", hint="name one with its cidr")
        _check_names("subnets", subnets)
        _check_overlaps(subnets)
        gateway = _read_gateway(found["gateway"], subnets) if found.get("gateway") else None
        balancers = tuple(_read_balancer(one, subnets) for one in found.get("balancers") or ())
        _check_names("balancers", balancers)
        network = cls(subnets, tuple(sorted(set(found.get("peers") or ()))), gateway, balancers)
        _check_addresses(network)
        return network

    def list_reserved(self, subnet: NetworkSubnet) -> list[IPv4Address]:
        """Return the addresses of the subnet that no pod may get, in order."""
        reserved = {subnet.gateway, *subnet.excluded}
        if self.gateway is not None and self.gateway.address in subnet.cidr:
            reserved.add(self.gateway.address)
        for balancer in self.balancers:
            if balancer.address in subnet.cidr:
                reserved.add(balancer.address)
        return sorted(reserved)


def _read_subnet(found: Json) -> NetworkSubnet:
    name = _read_name(found)
    cidr = _read_cidr(found.get("cidr"))
    if cidr.overlaps(LINKS):
        raise BadAddress(f"{cidr} overlaps {LINKS}, which joins peered networks")
    gateway = _read_address(found["gateway"]) if found.get("gateway") else cidr[1]
    excluded = tuple(sorted(_read_address(one) for one in found.get("excluded") or ()))
    for address in (gateway, *excluded):
        _check_host(address, cidr, f"subnet {name}")
    namespaces = tuple(sorted(set(found.get("namespaces") or ())))
    return NetworkSubnet(name, cidr, gateway, namespaces, excluded, found.get("mtu"))


def _read_gateway(found: Json, subnets: tuple[NetworkSubnet, ...]) -> NetworkGateway:
    subnet = _find_subnet(found.get("subnet") or subnets[0].name, subnets, "the gateway")
    address = _read_address(found.get("address"))
    _check_host(address, subnet.cidr, f"subnet {subnet.name}")
    addresses = tuple(_read_external(one, subnets) for one in found.get("addresses") or ())
    _check_names("addresses", addresses)
    forwards = tuple(_read_forward(one, addresses, subnets) for one in found.get("forwards") or ())
    _check_names("forwards", forwards)
    _check_doors(forwards)
    if not found.get("externalSubnet"):
        raise BadOption(
            "the gateway names no externalSubnet", hint="kubectl get subnets.kubeovn.io lists them"
        )
    labels = tuple(sorted((found.get("nodeSelector") or {}).items()))
    return NetworkGateway(
        found["externalSubnet"], subnet.name, address, labels, addresses, forwards
    )


def _read_external(found: Json, subnets: tuple[NetworkSubnet, ...]) -> ExternalAddress:
    name = _read_name(found)
    address = _read_address(found["address"]) if found.get("address") else None
    snat = tuple(sorted(set(found.get("snat") or ())))
    for one in snat:
        _find_subnet(one, subnets, f"address {name}")
    return ExternalAddress(name, address, found.get("megabits"), snat)


def _read_forward(
    found: Json, addresses: tuple[ExternalAddress, ...], subnets: tuple[NetworkSubnet, ...]
) -> AddressForward:
    name = _read_name(found)
    known = [one.name for one in addresses]
    if found.get("address") not in known:
        raise BadOption(
            f"forward {name} names the address {found.get('address')!r}, which the gateway lacks",
            hint=f"it has {', '.join(known) or 'none'}",
        )
    target = _read_address(found.get("target"))
    if not any(target in one.cidr for one in subnets):
        raise BadAddress(
            f"forward {name} leads to {target}, which is in no subnet of the network",
            hint=f"subnets: {', '.join(str(one.cidr) for one in subnets)}",
        )
    port = found["port"]
    return AddressForward(
        name,
        found["address"],
        port,
        found.get("protocol") or PROTOCOLS[0],
        target,
        found.get("targetPort") or port,
    )


def _read_balancer(found: Json, subnets: tuple[NetworkSubnet, ...]) -> NetworkBalancer:
    name = _read_name(found)
    address = _read_address(found.get("address"))
    inside = [one for one in subnets if address in one.cidr]
    if not inside:
        raise BadAddress(
            f"balancer {name} has the address {address}, which is in no subnet of the network",
            hint=f"subnets: {', '.join(str(one.cidr) for one in subnets)}",
        )
    _check_host(address, inside[0].cidr, f"subnet {inside[0].name}")
    selector = tuple(sorted((found.get("selector") or {}).items()))
    if not selector:
        raise BadOption(f"balancer {name} selects no pods", hint="selector: {app: web}")
    ports = []
    for one in found.get("ports") or ():
        target = one.get("targetPort") or one["port"]
        ports.append(BalancedPort(one["port"], target, one.get("protocol") or PROTOCOLS[0]))
    if not ports:
        raise BadOption(f"balancer {name} has no port", hint="ports: [{port: 80}]")
    return NetworkBalancer(name, address, found.get("namespace") or "", selector, tuple(ports))


def _read_name(found: Json) -> str:
    name = str(found.get("name") or "")
    if not re.fullmatch(NAME, name) or len(name) > LONGEST_PART:
        raise BadOption(
            f"{name[:63]!r} names no part of a network",
            hint=f"1 to {LONGEST_PART} lower-case letters, digits and single hyphens",
        )
    return name


def _read_cidr(typed: object) -> IPv4Network:
    try:
        cidr = IPv4Network(str(typed))
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv4 prefix: {error}", hint="write e.g. 10.1.0.0/24"
        ) from None
    if cidr.prefixlen > 29:
        raise BadAddress(
            f"{cidr} has {cidr.num_addresses} addresses, a subnet needs 8 at least",
            hint="take a prefix of 29 bits or fewer",
        )
    return cidr


def _read_address(typed: object) -> IPv4Address:
    try:
        return IPv4Address(str(typed))
    except AddressValueError:
        raise BadAddress(
            f"{str(typed)[:63]!r} is not an IPv4 address", hint="write e.g. 10.1.0.254"
        ) from None


def _check_host(address: IPv4Address, cidr: IPv4Network, where: str) -> None:
    if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
        raise BadAddress(
            f"{address} is not a host of {where} ({cidr})",
            hint=f"take one from {cidr[1]} to {cidr[-2]}",
        )


def _find_subnet(name: str, subnets: tuple[NetworkSubnet, ...], what: str) -> NetworkSubnet:
    for one in subnets:
        if one.name == name:
            return one
    raise BadOption(
        f"{what} names the subnet {name!r}, which the network lacks",
        hint=f"it has {', '.join(one.name for one in subnets)}",
    )


def _check_names(what: str, parts: Iterable[Any]) -> None:
    names: set[str] = set()
    for part in parts:
        if part.name in names:
            raise BadOption(f"two of the {what} are called {part.name}")
        names.add(part.name)


def _check_doors(forwards: Iterable[AddressForward]) -> None:
    doors: dict[tuple[str, int, str], str] = {}
    for one in forwards:
        other = doors.setdefault((one.address, one.port, one.protocol), one.name)
        if other != one.name:
            raise BadOption(
                f"forwards {other} and {one.name} both take port {one.port}/{one.protocol}"
                f" of {one.address}"
            )


def _check_overlaps(subnets: tuple[NetworkSubnet, ...]) -> None:
    clashing = []
    for one, other in combinations(subnets, 2):
        if one.cidr.overlaps(other.cidr):
            clashing.append(f"{one.name} {one.cidr} and {other.name} {other.cidr}")
    if clashing:
        raise OverlappingSubnets(f"subnets overlap: {', '.join(clashing)}", clashing=clashing)


def _check_addresses(network: TenantNetwork) -> None:
    """Each address of a subnet has one user."""
    users: dict[IPv4Address, str] = {}
    for subnet in network.subnets:
        users[subnet.gateway] = f"the router of {subnet.name}"
    wanted = [(one.address, f"balancer {one.name}") for one in network.balancers]
    if network.gateway is not None:
        wanted.append((network.gateway.address, "the gateway"))
    for address, user in wanted:
        other = users.setdefault(address, user)
        if other != user:
            raise BadAddress(f"{address} is wanted by {other} and by {user}")
