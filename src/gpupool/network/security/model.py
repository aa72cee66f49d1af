"""What a tenant wants of a security group: its rules, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

Protocol = Literal["any", "tcp", "udp", "icmp"]


@dataclass(frozen=True)
class SecurityRule:
    """Packets that a group takes from outside of it, and the answers to them.

    Attributes:
        key: public id.
        first_port, last_port: destination ports, both included; None: every port.
        prefix: of the source; None where a group is the source, or every address is.
        group: public id of the group that is the source; None: none is named.
    """

    key: str
    protocol: Protocol
    first_port: int | None = None
    last_port: int | None = None
    prefix: IPv4Network | IPv6Network | None = None
    group: str | None = None


@dataclass(frozen=True)
class SecurityGroup:
    """Jobs of one network that reach each other, and that others reach by rules alone.

    Attributes:
        key: public id.
    """

    key: str
    name: str
    rules: tuple[SecurityRule, ...] = ()
