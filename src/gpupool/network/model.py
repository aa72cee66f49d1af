"""What a tenant wants of the network: networks, their subnets, and the ports of jobs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

#: MTU inside a network whose packets are carried by Geneve over Ethernet with an MTU of 1500: OVN
#: takes 58 bytes (ovn-architecture(7)).
DEFAULT_MTU = 1442


@dataclass(frozen=True)
class Subnet:
    """A range of addresses in a network.

    Attributes:
        id: row id, which makes MAC addresses unique in the pool.
        key: public id.
        gateway: address of the network's router in the subnet.
    """

    id: int
    key: str
    name: str
    cidr: IPv4Network
    gateway: IPv4Address


@dataclass(frozen=True)
class Port:
    """An attachment of a job to a subnet.

    Attributes:
        subnet: public id of the subnet.
        name: its DNS name in the network, without the domain.
    """

    id: int
    key: str
    subnet: str
    address: IPv4Address
    name: str

    @property
    def mac(self) -> str:
        """Locally administered unicast address, unique in the pool."""
        return make_mac(0x0A, self.id)


@dataclass(frozen=True)
class Network:
    """A virtual private cloud (VPC) of one tenant with all that is in it.

    Attributes:
        domain: DNS domain of the names of its ports.
        mtu: largest packet inside the network, in bytes.
    """

    key: str
    name: str
    domain: str
    mtu: int
    subnets: tuple[Subnet, ...] = ()
    ports: tuple[Port, ...] = ()


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
    """Make a MAC address of a first byte and a number below 2**40."""
    octets = (first, *number.to_bytes(5, "big"))
    return ":".join(f"{octet:02x}" for octet in octets)


def make_router_mac(subnet: Subnet) -> str:
    """Return the MAC address of the network's router in a subnet."""
    return make_mac(0x0E, subnet.id)
