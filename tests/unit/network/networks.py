"""Networks for tests, as values."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from gpupool.network.model import Network, Port, Subnet

PREFIX = IPv4Network("10.0.0.0/24")


def make_network(number: int, ports: int, cidr: IPv4Network = PREFIX) -> Network:
    """A network with one subnet; every network has the same prefix."""
    subnet = Subnet(number, f"s-{number:010}", "default", cidr, cidr[1])
    return Network(
        f"v-{number:010}",
        f"net{number}",
        f"net{number}.gpupool.internal",
        1442,
        (subnet,),
        tuple(make_port(number * 1000 + index, subnet, cidr[10 + index]) for index in range(ports)),
    )


def make_port(number: int, subnet: Subnet, address: IPv4Address) -> Port:
    return Port(number, f"n-{number:010}", subnet.key, address, f"job-{number}")
