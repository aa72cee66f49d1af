"""What a load balancer of HTTP needs beside its address: a proxy with a port in the network. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from gpupool.base.errors import BadInput

#: A host of a route, as RFC 1123 section 2.1 allows names; the first label may be `*`.
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
#: A path, as RFC 3986 section 3.3 allows it, without the apostrophe.
_PATH = re.compile(r"(/[A-Za-z0-9._~!$&()*+,;=:@%-]*)+")
_LONGEST_HOST = 253
_LONGEST_PATH = 255


@dataclass(frozen=True)
class ProxyPort:
    """The port of a proxy in a subnet of its network.

    Attributes:
        key: public id, which begins with `h-`.
        number: row id, which makes its MAC address unique in the pool.
        subnet: public id of the subnet.
        listeners: ports on which it is asked; the first one speaks plain HTTP.
        address6: its IPv6 address; None where its subnet has no IPv6.
        standby: the proxy on the second machine of a pair; None: there is none.
        is_standby: whether it is that one.
    """

    key: str
    number: int
    subnet: str
    address: IPv4Address
    listeners: tuple[int, ...]
    address6: IPv6Address | None = None
    standby: ProxyPort | None = None
    is_standby: bool = False


@dataclass(frozen=True)
class ProxyServer:
    """A job behind a proxy.

    Attributes:
        key: public id of its port.
        is_draining: whether it gets no new requests.
    """

    key: str
    address: IPv4Address
    port: int
    is_draining: bool = False


@dataclass(frozen=True)
class ProxyRoute:
    """Requests, and the jobs that answer them.

    Attributes:
        host: name, perhaps with `*` as its first label; None: any.
        path: it and all below it.
    """

    host: str | None
    path: str
    servers: tuple[ProxyServer, ...]


@dataclass(frozen=True)
class ProxySettings:
    """What a proxy does.

    Attributes:
        listen_port: of plain HTTP.
        https_port: None where it has no certificate.
        check_path: what backends are probed with; None: whether they accept connections.
        has_ipv6: whether it is asked over IPv6 too.
    """

    listen_port: int
    https_port: int | None
    redirects: bool
    is_sticky: bool
    check_path: str | None
    routes: tuple[ProxyRoute, ...]
    has_ipv6: bool = False


def check_host(host: str) -> str:
    """Return a host in lower case. Raises BadInput for what is no name of a host."""
    lower = host.lower()
    if len(lower) > _LONGEST_HOST or not _HOST.fullmatch(lower):
        raise BadInput(
            f"not a host: {host[:80]!r}", hint="write it like api.example.com or *.example.com"
        )
    return lower


def check_path(path: str) -> str:
    """Return a path. Raises BadInput for what is no path of a URL."""
    if len(path) > _LONGEST_PATH or not _PATH.fullmatch(path):
        raise BadInput(f"not a path: {path[:80]!r}", hint="write it like /v1/models")
    return path
