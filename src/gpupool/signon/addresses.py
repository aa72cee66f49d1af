"""Addresses of providers: secrets and keys go over TLS, or stay on this machine."""

from __future__ import annotations

import ipaddress
import ssl
from urllib.parse import urlsplit

from gpupool.base.errors import BadOption


def check_web_address(address: str, what: str) -> None:
    """Raise BadOption unless the address is https, or http on this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        is_right = parts.port is None or parts.port > 0
    except ValueError:
        host = ""
        is_right = False
        parts = urlsplit("")
    plain = parts.username is None and not parts.fragment and not parts.query
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not (is_right and host and plain and safe):
        raise BadOption(
            f"{what} {address!r} cannot be used",
            hint="give https://HOST[:PORT][/PATH]; http:// is for this machine alone",
        )


def check_directory_address(address: str) -> None:
    """Raise BadOption unless the address is ldaps://HOST[:PORT] or ldap://HOST[:PORT]."""
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
        parts = urlsplit("")
    bare = parts.path in ("", "/") and not parts.query and parts.username is None
    if not (has_host and bare and parts.scheme in ("ldap", "ldaps")):
        raise BadOption(
            f"the directory's address {address!r} cannot be used",
            hint="give ldaps://HOST[:PORT], or ldap://HOST[:PORT], on which StartTLS is used",
        )


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine by its address or as `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_certificates(pem: str) -> None:
    """Raise BadOption for authorities that cannot be read; an empty text is the system's."""
    if not pem:
        return
    try:
        ssl.create_default_context(cadata=pem)
    # TypeError: the text is not of ASCII.
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise BadOption(
            f"the authorities' certificates cannot be read: {error}", hint="give a PEM file"
        ) from None
