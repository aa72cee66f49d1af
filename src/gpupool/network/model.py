"""What a tenant wants of the network: networks, their subnets, and the ports of jobs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from gpupool.network.balancing.model import LoadBalancer
from gpupool.network.floating.model import FloatingIp
from gpupool.network.flows.model import FlowVerdict
from gpupool.network.forwarding.model import PortForward
from gpupool.network.ipv6.addresses import (
    derive_uplink,
    find_gateway,
    find_link_address,
    is_outside,
)
from gpupool.network.limiting.model import UNLIMITED, Bandwidth
from gpupool.network.lines.model import Line
from gpupool.network.naming.model import DnsRecord
from gpupool.network.routing.model import StaticRoute
from gpupool.network.security.model import SecurityGroup

#: MTU inside a network whose packets are carried by Geneve over Ethernet with an MTU of 1500: OVN
#: takes 58 bytes (ovn-architecture(7)).
DEFAULT_MTU = 1442

#: Below this domain are the names of jobs, as ICANN reserves `internal` for private use.
TOP_DOMAIN = "gpupool.internal"

#: Offset of the first gateway on the uplink, after its own address and the machine's.
_FIRST_GATEWAY = 2

#: Addresses between the routers of two networks.
_LINKS = IPv4Network("169.254.0.0/16")
#: Of them each link has a prefix of so many bits.
LINK_PREFIX = 30
#: Numbers of links.
LINK_NUMBERS = range(_LINKS.num_addresses // 4)


@dataclass(frozen=True)
class Subnet:
    """A range of addresses in a network.

    Attributes:
        id: row id, which makes MAC addresses unique in the pool.
        key: public id.
        gateway: address of the network's router in the subnet.
        probe: address from which backends of load balancers are probed; None: none are.
        cidr6: its IPv6 prefix; None: its ports have IPv4 alone.
    """

    id: int
    key: str
    name: str
    cidr: IPv4Network
    gateway: IPv4Address
    probe: IPv4Address | None = None
    cidr6: IPv6Network | None = None

    @property
    def gateway6(self) -> IPv6Address | None:
        """IPv6 address of the network's router in the subnet."""
        return None if self.cidr6 is None else find_gateway(self.cidr6)


@dataclass(frozen=True)
class Port:
    """An attachment of a job to a subnet.

    Attributes:
        subnet: public id of the subnet.
        name: its DNS name in the network, without the domain.
        groups: public ids of its security groups.
        bandwidth: what it may have at most.
        named_mac: MAC address that its claim names; empty: one of its own.
        address6: its IPv6 address; None where its subnet has no IPv6.
    """

    id: int
    key: str
    subnet: str
    address: IPv4Address
    name: str
    groups: tuple[str, ...] = ()
    bandwidth: Bandwidth = UNLIMITED
    named_mac: str = ""
    address6: IPv6Address | None = None

    @property
    def mac(self) -> str:
        """Locally administered unicast address."""
        return make_port_mac(self.id, self.named_mac)


@dataclass(frozen=True)
class PeeringEnd:
    """One end of an accepted peering, as its network sees it.

    Attributes:
        id: row id of the peering.
        key: public id of the peering.
        is_requester: whether the network asked for it.
        prefixes: subnets of the other network that the owner of this one agreed to.
        prefixes6: their IPv6 prefixes, where both networks have IPv6.
        link: number of its addresses, of `LINK_NUMBERS`; other links of the two networks have others.
        hidden: prefixes of this network that the owner of the other one has not agreed to.
    """

    id: int
    key: str
    is_requester: bool
    prefixes: tuple[IPv4Network, ...]
    prefixes6: tuple[IPv6Network, ...] = ()
    link: int = 0
    hidden: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def all_prefixes(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Prefixes of both families."""
        return (*self.prefixes, *self.prefixes6)

    @property
    def address(self) -> IPv4Address:
        """Of this network's router on the link between the two."""
        return self._find_address(self.is_requester)

    @property
    def next_hop(self) -> IPv4Address:
        """Of the other network's router on the link."""
        return self._find_address(not self.is_requester)

    @property
    def address6(self) -> IPv6Address:
        """IPv6 address of this network's router on the link."""
        return find_link_address(self.id, is_requester=self.is_requester)

    @property
    def next_hop6(self) -> IPv6Address:
        """IPv6 address of the other network's router on the link."""
        return find_link_address(self.id, is_requester=not self.is_requester)

    def _find_address(self, is_requester: bool) -> IPv4Address:
        # Four addresses of the link-local range for each link; two routers alone see them.
        first = int(_LINKS[0]) + 4 * self.link
        return IPv4Address(first + (1 if is_requester else 2))


@dataclass(frozen=True)
class Gateway:
    """The way of a network to what lies outside of the pool.

    Attributes:
        address: of the network's router on the uplink; its packets have it outside.
        uplink: prefix of the uplink.
        next_hop: the machine's address on the uplink.
        bandwidth: what it may have at most.
        is_paired: whether the pair of machines serves it, and not the centre alone.
        address6: as `address`, for IPv6; None: it carries IPv4 alone.
    """

    address: IPv4Address
    uplink: IPv4Network
    next_hop: IPv4Address
    bandwidth: Bandwidth = UNLIMITED
    is_paired: bool = False
    address6: IPv6Address | None = None

    @property
    def mac(self) -> str:
        """Of the network's router on the uplink: an address keeps it, whichever network has that."""
        return make_mac(0x12, int(self.address) - int(self.uplink[_FIRST_GATEWAY]))

    @property
    def uplink6(self) -> IPv6Network:
        """IPv6 prefix of the uplink."""
        return derive_uplink(self.uplink)

    @property
    def next_hop6(self) -> IPv6Address:
        """IPv6 address of the machine on the uplink."""
        return self.uplink6[1]


@dataclass(frozen=True)
class Network:
    """A virtual private cloud (VPC) of one tenant with all that is in it.

    Attributes:
        domain: DNS domain of the names of its ports.
        mtu: largest packet inside the network, in bytes.
        id: row id, which makes the MAC address of its gateway unique in the pool.
        logged: what became of the packets that its flow logs have.
        drill: id of the port from which a drill probes its gateway; None: none runs.
    """

    key: str
    name: str
    domain: str
    mtu: int
    subnets: tuple[Subnet, ...] = ()
    ports: tuple[Port, ...] = ()
    peerings: tuple[PeeringEnd, ...] = ()
    id: int = 0
    gateway: Gateway | None = None
    groups: tuple[SecurityGroup, ...] = ()
    balancers: tuple[LoadBalancer, ...] = ()
    forwards: tuple[PortForward, ...] = ()
    records: tuple[DnsRecord, ...] = ()
    lines: tuple[Line, ...] = ()
    routes: tuple[StaticRoute, ...] = ()
    logged: frozenset[FlowVerdict] = frozenset()
    drill: str | None = None
    floating_ips: tuple[FloatingIp, ...] = ()

    @property
    def has_ipv6(self) -> bool:
        """Whether a subnet of it has an IPv6 prefix."""
        return any(subnet.cidr6 is not None for subnet in self.subnets)

    @property
    def has_outside6(self) -> bool:
        """Whether it leads IPv6 out of unique local addresses: by its gateway, or by a route."""
        if self.gateway is not None and self.gateway.address6 is not None:
            return True
        return any(is_outside(route.prefix) for route in self.routes)


def make_domain(network: str) -> str:
    """Return the DNS domain of a network."""
    return f"{network.lower().replace('_', '-').replace('.', '-')}.{TOP_DOMAIN}"


def make_dns_name(job: str, array: str | None = None) -> str:
    """Make the DNS name of a job: `train`, or `train-0.train` of a member of a gang or an array.

    A host name has letters, digits and hyphens only (RFC 1123 section 2.1); other characters of a
    job's name become hyphens.
    """
    label = _make_label(job)
    return label if array is None else f"{label}.{_make_label(array)}"


def _make_label(text: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", text.lower()).strip("-")


def make_mac(first: int, number: int) -> str:
    """Make a MAC address of a first byte and a number below 2**40.

    Each kind of owner has a first byte of its own, for the numbers of two kinds may be equal.
    """
    octets = (first, *number.to_bytes(5, "big"))
    return ":".join(f"{octet:02x}" for octet in octets)


def make_port_mac(port_id: int, named: str | None = None) -> str:
    """Return the MAC address of a port: the one that its claim names, or one unique in the pool."""
    return named or make_mac(0x0A, port_id)


def make_vm_mac(identity: str) -> str:
    """Make the MAC address that a VM keeps, from the job in which it first started.

    Its guest knows its interface by it, so it must not change where the VM starts again.
    """
    # Two of a subnet with 65,533 addresses are equal with a probability of 0.002; of 1,000 VMs 5e-7.
    return make_mac(0x06, int.from_bytes(sha256(identity.encode()).digest()[:5]))


def make_gateway(number: int, uplink: IPv4Network, *, has_ipv6: bool = False) -> Gateway:
    """Make the gateway of a network: the machine has the first address of the uplink.

    Args:
        number: its number on the uplink, of `GATEWAY_NUMBERS`.
        has_ipv6: whether it carries IPv6 too.
    """
    offset = _FIRST_GATEWAY + number
    address6 = derive_uplink(uplink)[offset] if has_ipv6 else None
    return Gateway(uplink[offset], uplink, uplink[1], address6=address6)


def make_router_mac(subnet: Subnet) -> str:
    """Return the MAC address of the network's router in a subnet."""
    return make_mac(0x0E, subnet.id)


def make_proxy_mac(number: int, *, is_standby: bool = False) -> str:
    """Return the MAC address of the proxy of a load balancer, by the balancer's row id."""
    return make_mac(0x26 if is_standby else 0x22, number)
