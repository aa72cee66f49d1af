"""Chooses the address of a machine that tunnels of networks have. Sends no packet."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from gpupool.base.errors import BadOption

#: Where a machine with several addresses says which of them others reach.
SETTING: Final = "GPUPOOL_TUNNEL_ADDRESS"
#: An address that every default route leads to: of a test network (RFC 5737).
_OUTSIDE: Final = "192.0.2.1"


def read_tunnel_address(environ: Mapping[str, str]) -> str:
    """Read the address that the environment sets; empty where it sets none.

    Raises BadOption for a text that is no IPv4 address.
    """
    text = environ.get(SETTING, "")
    if text:
        check_tunnel_address(text, SETTING)
    return text


def check_tunnel_address(text: str, setting: str) -> str:
    """Return an IPv4 address that others can reach. Raises BadOption for any other text."""
    try:
        address = IPv4Address(text)
    except ValueError as error:
        raise BadOption(
            f"{setting}={text!r} is no IPv4 address", hint=f"write it like {setting}=192.0.2.7"
        ) from error
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        raise BadOption(
            f"{setting}={text}: no other machine reaches this address",
            hint="name an address of an interface: ip -br address",
        )
    return text


def find_address_towards(url: str | None) -> str:
    """Return the address from which this machine reaches a server; empty without a server.

    Args:
        url: of the server, or of several with commas between.
    """
    for one in (url or "").split(","):
        host = urlsplit(one.strip()).hostname
        address = find_source_address(host) if host else ""
        if address and not address.startswith("127."):
            return address
    return ""


def find_source_address(target: str = _OUTSIDE) -> str:
    """Return this machine's address towards another one; empty where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Of UDP, `connect` chooses the route alone (udp(7)).
            probe.connect((target, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])
