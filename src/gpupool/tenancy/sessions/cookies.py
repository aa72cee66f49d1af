"""The cookie of a session: its name and attributes, and the pages that may send it.

A browser sends a cookie with every request to its host, whichever page asks. So a request that
changes something counts only with the `Origin` of the console itself and with a header that no
page of another origin can send without a preflight, which this server never allows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpupool.base.errors import CrossSiteRequest

#: Over HTTPS. The prefix has browsers refuse it from any other host, path or plain HTTP.
SECURE_NAME: Final = "__Host-gpupool"
#: Over plain HTTP on loopback, with the port: cookies of one host are the same for all its ports.
PLAIN_NAME: Final = "gpupool"
PAGE_HEADER: Final = b"x-gpupool"
PAGE_VALUE: Final = b"1"
#: Key of the scope's extensions: the connection came through the console's own listener.
CONSOLE_EXTENSION: Final = "gpupool.console"
#: A `Cookie` header is parsed up to so many bytes; browsers send about 4 KiB a cookie.
LONGEST_BYTES: Final = 16 << 10


@dataclass(frozen=True)
class SiteOrigin:
    """The console's own origin, as a browser names it."""

    secure: bool
    #: Host, with the port where it is not the scheme's own.
    host: str

    @property
    def text(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.host}"

    @property
    def cookie_name(self) -> str:
        if self.secure:
            return SECURE_NAME
        return f"{PLAIN_NAME}-{_split_port(self.host)[1] or '80'}"


@dataclass(frozen=True)
class SessionCookie:
    """A cookie that a request came with."""

    text: str
    site: SiteOrigin
    through_console: bool = False


def read_cookie(scope: Mapping[str, Any]) -> SessionCookie | None:
    """Return the session's cookie of a request or a WebSocket handshake; None without one."""
    header = b";".join(_list_headers(scope, b"cookie"))
    if PLAIN_NAME.encode() not in header or len(header) > LONGEST_BYTES:
        return None
    # Not by http.cookies: it drops all cookies for one of another program that it cannot parse.
    found: dict[str, str] = {}
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        found.setdefault(name, value)
    host = _read_host(scope)
    for site in (SiteOrigin(True, host), SiteOrigin(False, host)):
        text = found.get(site.cookie_name)
        if text and (site.secure or is_loopback(host)):
            return SessionCookie(text, site, is_through_console(scope))
    return None


def check_page(scope: Mapping[str, Any], cookie: SessionCookie) -> None:
    """Raise CrossSiteRequest unless a page of the console itself sent this request or handshake."""
    origins = _list_headers(scope, b"origin")
    if origins != [cookie.site.text.encode("latin-1")]:
        raise CrossSiteRequest(
            f"a session of {cookie.site.text} came from a page of {_show_origin(origins)}",
            hint="open the console itself:  gpupool console  prints a link",
        )
    # A WebSocket's handshake has no headers of its page's choice; its Origin is what counts.
    if not is_handshake(scope) and _list_headers(scope, PAGE_HEADER) != [PAGE_VALUE]:
        raise CrossSiteRequest(
            "a session changes something only with the header  X-Gpupool: 1",
            hint="programs send  Authorization: Bearer TOKEN  instead of a cookie",
        )


def is_handshake(scope: Mapping[str, Any]) -> bool:
    """Return whether a request opens a WebSocket: any page of any origin may send one."""
    if scope["type"] == "websocket":
        return True
    # No script of a page can set this header by itself.
    return scope.get("method") == "GET" and bool(_list_headers(scope, b"upgrade"))


def is_page(scope: Mapping[str, Any]) -> bool:
    """Return whether a page of the console sent this request, by the header that it adds."""
    return bool(_list_headers(scope, PAGE_HEADER))


def read_site(scope: Mapping[str, Any]) -> SiteOrigin:
    """Return the origin of the page that logs in, which must be the console's own.

    The browser's `Origin` says whether it speaks HTTPS, also where a proxy ends TLS.

    Raises:
        CrossSiteRequest: It is another origin, or plain HTTP beyond loopback, where the cookie
            could be read on its way.
    """
    host = _read_host(scope)
    origins = _list_headers(scope, b"origin")
    for site in (SiteOrigin(True, host), SiteOrigin(False, host)):
        if origins != [site.text.encode("latin-1")]:
            continue
        if site.secure or is_loopback(host):
            return site
        raise CrossSiteRequest(
            f"{site.text} is plain HTTP beyond loopback: a session would be readable on its way",
            hint="gpupool up --listen with --tls-cert and --tls-key, or  ssh -L PORT:127.0.0.1:PORT",
        )
    raise CrossSiteRequest(
        f"a login at {host or 'this pool'} came from a page of {_show_origin(origins)}",
        hint="open the console itself:  gpupool console  prints a link",
    )


def format_cookie(site: SiteOrigin, text: str, seconds: int) -> str:
    """Format the `Set-Cookie` header of a session; with no text and 0 seconds the one that ends
    it."""
    secure = "; Secure" if site.secure else ""
    return f"{site.cookie_name}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def is_loopback(host: str) -> bool:
    """Return whether a host, with or without a port, is a name or address of this machine alone."""
    name = _split_port(host)[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_through_console(scope: Mapping[str, Any]) -> bool:
    """Return whether a connection came through the console's own listener."""
    return CONSOLE_EXTENSION in (scope.get("extensions") or {})


def _read_host(scope: Mapping[str, Any]) -> str:
    hosts = _list_headers(scope, b"host")
    return hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    # An IPv6 address has colons of its own, and brackets where a port may follow.
    if not colon or host.endswith("]") or (":" in name and not host.startswith("[")):
        return host.strip("[]"), ""
    return name.strip("[]"), port if port.isascii() and port.isdigit() else ""


def _list_headers(scope: Mapping[str, Any], name: bytes) -> list[bytes]:
    return list(_iterate_headers(scope, name))


def _iterate_headers(scope: Mapping[str, Any], name: bytes) -> Iterator[bytes]:
    return (value for key, value in scope["headers"] if key == name)


def _show_origin(origins: list[bytes]) -> str:
    if len(origins) != 1:
        return "no origin" if not origins else "several origins"
    text = origins[0][:80].decode("latin-1")
    return text if text.isprintable() else "an unreadable origin"
