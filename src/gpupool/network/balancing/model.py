"""What a tenant wants of a load balancer. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Final, Literal

from gpupool.network.balancing.proxy_model import ProxyPort
from gpupool.network.ipv6.addresses import find_balancer_address

BalancedProtocol = Literal["tcp", "udp"]

#: Addresses of load balancers: shared address space (RFC 6598), which no subnet of a network has.
BALANCER_ADDRESSES: Final = IPv4Network("100.126.0.0/16")
#: The last of them: of the resolver of each network and of the router beside it.
RESOLVER_ADDRESSES: Final = IPv4Network("100.126.255.248/29")


@dataclass(frozen=True)
class LoadBalancer:
    """An address of a network behind which some of its jobs serve.

    Attributes:
        id: row id, which makes its address unique in the pool.
        key: public id.
        name: as its owner wrote it.
        port: on which it is asked.
        target_port: on which its backends serve.
        backends: DNS names of jobs; that of an array or a gang stands for all of its members.
        is_checked: whether backends that accept no connection are left out.
        proxy: what answers HTTP for it; None: connections go to its backends as they are.
    """

    id: int
    key: str
    name: str
    protocol: BalancedProtocol
    port: int
    target_port: int
    backends: tuple[str, ...]
    is_checked: bool
    proxy: ProxyPort | None = None

    @property
    def dns_name(self) -> str:
        """Its DNS name in the network, without the domain."""
        return make_balancer_name(self.name)

    @property
    def address(self) -> IPv4Address:
        """Its address, unique in the pool."""
        count = BALANCER_ADDRESSES.num_addresses - RESOLVER_ADDRESSES.num_addresses - 1
        return BALANCER_ADDRESSES[1 + self.id % count]

    @property
    def address6(self) -> IPv6Address | None:
        """Its IPv6 address in a network that has IPv6, unique in the pool.

        None where its proxy is in a subnet without IPv6.
        """
        if self.proxy is not None and self.proxy.address6 is None:
            return None
        return find_balancer_address(self.id)

    def has_backend(self, name: str) -> bool:
        """Whether a port with that DNS name is one of its backends."""
        return has_name(self.backends, name)

    @property
    def proxy_ports(self) -> tuple[ProxyPort, ...]:
        """The ports of its proxies: that of the first machine comes first."""
        if self.proxy is None:
            return ()
        return (self.proxy,) if self.proxy.standby is None else (self.proxy, self.proxy.standby)

    @property
    def listeners(self) -> tuple[int, ...]:
        """Ports on which it is asked."""
        return (self.port,) if self.proxy is None else self.proxy.listeners


def make_balancer_name(name: str) -> str:
    """Make the DNS name of a load balancer: as those of jobs, but dots stay.

    A host name has no underscore (RFC 1123 section 2.1).
    """
    return name.lower().replace("_", "-")


def has_name(backends: Collection[str], name: str) -> bool:
    """Whether backends have a job with that DNS name, by itself or by its array."""
    return name in backends or name.partition(".")[2] in backends
