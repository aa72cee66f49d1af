"""What a tenant wants of a dedicated line, and what its peer announces. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from gpupool.network.lines.translation import Translation, see_inside


@dataclass(frozen=True)
class Line:
    """A dedicated line of a network.

    Attributes:
        key: public id.
        address: of the network's router on the line, with the link's prefix.
        speaker: of the BGP speaker on the line.
        mtu: largest packet on the line, in bytes.
        allowed: what the peer may announce, with all longer prefixes of it.
        learned: what the peer announces and the agent accepted.
        translations: subnets of the network that the company sees elsewhere.
        peer_translations: allowed prefixes that jobs see elsewhere.
    """

    key: str
    vlan: int
    address: IPv4Interface
    speaker: IPv4Address
    peer: IPv4Address
    mtu: int
    prefix_limit: int
    allowed: tuple[IPv4Network, ...]
    learned: tuple[IPv4Network, ...] = ()
    translations: tuple[Translation, ...] = ()
    peer_translations: tuple[Translation, ...] = ()

    @property
    def is_translated(self) -> bool:
        """Whether packets pass the speaker's namespace, which translates."""
        return bool(self.translations or self.peer_translations)

    @property
    def next_hop(self) -> IPv4Address:
        """Where the network's router sends packets for the company."""
        return self.speaker if self.is_translated else self.peer

    @property
    def seen_allowed(self) -> tuple[IPv4Network, ...]:
        """What the peer may announce, as jobs see it."""
        return tuple(see_inside(one, self.peer_translations) for one in self.allowed)

    @property
    def link(self) -> IPv4Network:
        """The prefix of the two routers and the speaker."""
        return self.address.network

    @property
    def router_mac(self) -> str:
        return make_line_mac(0x3A, self.key)

    @property
    def speaker_mac(self) -> str:
        return make_line_mac(0x3E, self.key)

    def list_routes(self) -> tuple[IPv4Network, ...]:
        """List the prefixes that lead to the peer, as jobs see them."""
        return tuple(see_inside(one, self.peer_translations) for one in self.list_learned())

    def list_learned(self) -> tuple[IPv4Network, ...]:
        """List what is learned of the peer: also an agent may only report allowed prefixes."""
        allowed = (prefix for prefix in self.learned if is_allowed(prefix, self.allowed))
        return tuple(sorted(allowed)[: self.prefix_limit])


def is_allowed(prefix: IPv4Network, allowed: tuple[IPv4Network, ...]) -> bool:
    """Whether a prefix is one of those, or a part of one."""
    return any(prefix.subnet_of(one) for one in allowed)


def make_line_mac(first: int, key: str) -> str:
    """Make a MAC address of a line.

    It is seen outside of the machine, where several pools may be: it is made of the random id.
    """
    digest = hashlib.sha256(key.encode()).digest()
    return ":".join(f"{octet:02x}" for octet in (first, *digest[:5]))
