"""The network of a Tenant as operators write it (`spec.network`), read and checked. Pure.

What is wrong within one object is refused here. What depends on other Tenants (namespaces, peers)
is judged in `networks/judgement`. See docs/decisions/0077-tenant-networks-on-kubernetes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from gpupool.base.errors import BadAddress, BadOption
from gpupool.kubernetes.resources.network_parts.network_gateways import (
    NetworkGateway,
    read_gateway,
)
from gpupool.kubernetes.resources.network_parts.network_routes import NetworkRoute, read_routes
from gpupool.kubernetes.resources.network_parts.subnets import (
    NetworkSubnet,
    check_inside,
    check_overlaps,
    read_subnet,
)
from gpupool.kubernetes.resources.network_parts.values import (
    PROTOCOLS,
    Json,
    check_names,
    read_address,
    read_name,
)


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
    routes: tuple[NetworkRoute, ...] = ()

    @classmethod
    def from_json(cls, found: Json) -> TenantNetwork:
        """Read it. Raises BadAddress, BadOption, OverlappingSubnets."""
        subnets = tuple(read_subnet(one) for one in found.get("subnets") or ())
        if not subnets:
            raise BadOption("the network has no subnet", hint="name one with its cidr")
        check_names("subnets", subnets)
        check_overlaps(subnets)
        gateway = read_gateway(found["gateway"], subnets) if found.get("gateway") else None
        balancers = tuple(_read_balancer(one, subnets) for one in found.get("balancers") or ())
        check_names("balancers", balancers)
        network = cls(
            subnets=subnets,
            peers=tuple(sorted(set(found.get("peers") or ()))),
            gateway=gateway,
            balancers=balancers,
            routes=read_routes(found, subnets, gateway is not None),
        )
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


def _read_balancer(found: Json, subnets: tuple[NetworkSubnet, ...]) -> NetworkBalancer:
    name = read_name(found)
    address = read_address(found.get("address"))
    check_inside(address, subnets, f"balancer {name} has the address")
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
