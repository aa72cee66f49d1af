"""What a tenant wants to be answered beside the names of jobs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address


@dataclass(frozen=True)
class DnsRecord:
    """An address of a name in a network.

    Attributes:
        name: without the domain.
    """

    name: str
    address: IPv4Address | IPv6Address
