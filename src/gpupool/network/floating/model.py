"""What a tenant wants of a floating IP. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Protocol, TypeVar

#: Numbers of floating IPs on the uplink, whose addresses are in the upper half of its prefix. 0 is of
#: earlier pools alone.
INNER_NUMBERS: Final = range(1, 2**15 - 1)


class NamedPort(Protocol):
    """A port as far as floating IPs know it."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> IPv4Address: ...


_Port = TypeVar("_Port", bound=NamedPort)


@dataclass(frozen=True)
class FloatingIp:
    """An address outside that is one job's, in both directions.

    Attributes:
        key: public id.
        address: outside of the pool.
        inner: on the uplink: the machine translates between the two.
        target: DNS name of a job in the network, or the job's address there.
    """

    key: str
    address: IPv4Address
    inner: IPv4Address
    target: str

    def is_for(self, port: NamedPort) -> bool:
        """Whether a port has the name or the address that it leads to."""
        return self.target in (port.name, str(port.address))


def make_inner_address(number: int, uplink: IPv4Network) -> IPv4Address:
    """Make the address of a floating IP on the uplink, by its number there.

    They have the upper half of the uplink, gateways the lower one (`make_gateway`).
    """
    return uplink[uplink.num_addresses // 2 + number]


def bind_ports(
    floating: Iterable[FloatingIp], ports: Iterable[_Port]
) -> list[tuple[FloatingIp, _Port]]:
    """Find the port of each floating IP that has one now.

    Of several jobs with one name the first is taken, and of several floating IPs for one job too:
    OVN would choose at random by which of them the job's packets leave.
    """
    present = list(ports)
    bound = list[tuple[FloatingIp, _Port]]()
    taken = set[IPv4Address]()
    for one in floating:
        port = next((port for port in present if one.is_for(port)), None)
        if port is not None and port.address not in taken:
            taken.add(port.address)
            bound.append((one, port))
    return bound
