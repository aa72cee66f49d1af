"""What a tenant wants of a static route. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

#: Of either family; all that one route has are of the same.
RoutePrefix = IPv4Network | IPv6Network
RouteHop = IPv4Address | IPv6Address


@dataclass(frozen=True)
class StaticRoute:
    """A route that a tenant wrote.

    Attributes:
        key: public id.
        via: address of the job that forwards the packets; None: they are discarded.
        subnet: public id of the subnet whose packets it is for; None: those of the whole network.
        forwards: prefixes of other senders whose packets the job at `via` may send on.
    """

    key: str
    prefix: RoutePrefix
    via: RouteHop | None = None
    subnet: str | None = None
    forwards: tuple[RoutePrefix, ...] = ()

    def list_forwarded(self) -> tuple[RoutePrefix, ...]:
        """List what the job at `via` sends and receives besides its own packets."""
        return () if self.via is None else (self.prefix, *self.forwards)
