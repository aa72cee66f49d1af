"""Which receivers the pool may connect to, so that no tenant reaches the inside of the network.

A URL's host must be in the admin's list. Its addresses are looked up once and the connection goes
to one of those that were judged. Link-local addresses are never allowed: metadata services of
clouds answer there.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gpupool.base.errors import BadOption, ForbiddenReceiver
from gpupool.wire.notifications import AllowedHost

#: Looks up the addresses of a name and a port. Raises OSError.
Lookup = Callable[[str, int], Sequence[str]]

#: Networks whose addresses end with an IPv4 address: mapped, compatible (RFC 4291) and by NAT64 (RFC
#: 6052, 8215). 6to4 has it in the middle.
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_EMBEDDING: Final = (
    ipaddress.IPv6Network("::ffff:0:0/96"),
    ipaddress.IPv6Network("::/96"),
    ipaddress.IPv6Network("64:ff9b::/96"),
    _LOCAL_NAT64,
)


@dataclass(frozen=True)
class Receiver:
    """A URL that was judged, and the address that the connection goes to."""

    url: SplitResult
    host: str
    port: int
    address: str

    @property
    def is_plain(self) -> bool:
        return self.url.scheme == "http"

    @property
    def target(self) -> str:
        """Path and query, as in a request's first line."""
        path = self.url.path or "/"
        return f"{path}?{self.url.query}" if self.url.query else path


def parse_url(text: str) -> SplitResult:
    """Split the URL of a receiver. Raises BadOption."""
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        url = urlsplit("")
    is_whole = url.scheme in ("http", "https") and url.hostname and not url.fragment
    # A name and password in it would appear in every list.
    if not is_whole or "@" in url.netloc or not text.isascii() or not text.isprintable():
        raise BadOption(
            "the address is no URL of a receiver", hint="write it like https://hooks.example/ID"
        )
    if any(one.isspace() for one in text):
        raise BadOption("the address has a space", hint="quote it as %20")
    return url


def find_allowed(url: SplitResult, allowed: Iterable[AllowedHost]) -> AllowedHost:
    """Find the entry of the admin's list for a URL. Raises ForbiddenReceiver."""
    host = (url.hostname or "").rstrip(".")
    entry = next((one for one in allowed if one.host == host), None)
    if entry is None:
        raise ForbiddenReceiver(
            f"messages may not be sent to {host}",
            hint=f"an admin allows it: gpupool notify allow {host}",
        )
    if url.scheme == "http" and not entry.plain:
        raise ForbiddenReceiver(
            f"messages to {host} need https", hint="an admin allows http: --plain"
        )
    return entry


def resolve_receiver(text: str, allowed: Iterable[AllowedHost], lookup: Lookup) -> Receiver:
    """Judge a URL and the addresses of its host.

    Raises:
        ForbiddenReceiver: it is not in the list, or its address is one of the inside.
        OSError: its name has no address.
    """
    url = parse_url(text)
    entry = find_allowed(url, allowed)
    host = url.hostname or ""
    port = url.port or (80 if url.scheme == "http" else 443)
    addresses = lookup(host, port)
    for address in addresses:
        if is_allowed_address(address, is_private=entry.private):
            return Receiver(url, host, port, address)
    raise ForbiddenReceiver(
        f"{host} has the address {', '.join(addresses[:3]) or '--'}, which is not for messages",
        hint=f"an admin allows private addresses: gpupool notify allow {host} --private",
    )


def is_allowed_address(text: str, *, is_private: bool) -> bool:
    """Whether the pool may connect to an address.

    Args:
        is_private: whether private and loopback addresses are allowed.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        is_local = address.is_site_local or address in _LOCAL_NAT64
        if is_local and not is_private:
            return False
        address = _find_embedded(address) or address
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    return is_private or address.is_global


def _find_embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address to which the network hands what is sent there; None: it is none."""
    if any(address in network for network in _EMBEDDING):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.sixtofour


def look_up(host: str, port: int) -> list[str]:
    """Look up the addresses of a host. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]
