"""Connections to TCP ports of jobs.

A job in a network is entered by its namespace. Any other job shares the machine's loopback address
with all that run there; of its ports those are reached that the job's own user listens on.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.relay.refusal import StreamRefusal

#: Seconds for the job to accept.
_CONNECT_SECONDS: Final = 5.0
#: An address of documentation (RFC 5737): connecting a datagram socket to it sends nothing.
_ANY_ADDRESS: Final = ("192.0.2.1", 9)
#: The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN: Final = 10
#: Loopback and any address, as /proc/net/tcp and tcp6 have them on little-endian machines, each
#: with the address that leads to its listener. An IPv6 socket may listen for IPv4 alone, as those of
#: Java do: `::1` does not reach it.
_LOCAL: Final = {
    "tcp": {"0100007F": "127.0.0.1", "00000000": "127.0.0.1"},
    "tcp6": {
        "0" * 24 + "01000000": "::1",
        "0" * 32: "::1",
        "0000000000000000FFFF00000100007F": "127.0.0.1",
        "0000000000000000FFFF000000000000": "127.0.0.1",
    },
}


def connect_port(port: int, namespace: Path | None, uid: int) -> socket.socket:
    """Connect to a port of a job.

    Args:
        namespace: of the job's network; None: it is in none.
        uid: of the job's user.

    Raises:
        StreamRefusal: nothing of the user accepts connections there.
    """
    try:
        if namespace is not None:
            connection = _connect_inside(namespace, port)
        else:
            connection = socket.create_connection(
                (find_own_address(port, uid), port), _CONNECT_SECONDS
            )
    except OSError as error:
        raise StreamRefusal(f"nothing in the job accepts connections on {port}: {error}") from error
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _connect_inside(namespace: Path, port: int) -> socket.socket:
    """Connect inside a namespace: to its loopback address, or else to its own address."""
    with enter_namespace(namespace):
        try:
            return socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS)
        except ConnectionRefusedError:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
                own.connect(_ANY_ADDRESS)
                address = own.getsockname()[0]
            return socket.create_connection((address, port), _CONNECT_SECONDS)


def find_own_address(port: int, uid: int, proc: Path = Path("/proc/net")) -> str:
    """Return the loopback address on which an account listens. Raises StreamRefusal."""
    others = set[int]()
    for family, addresses in _LOCAL.items():
        for owner, address in _list_listeners(proc / family, port):
            if address not in addresses:
                continue
            if owner == uid:
                return addresses[address]
            others.add(owner)
    if others:
        raise StreamRefusal(f"port {port} of the job's machine is another user's")
    raise StreamRefusal(f"nothing in the job accepts connections on {port}")


def _list_listeners(table: Path, port: int) -> Iterator[tuple[int, str]]:
    """List the accounts that listen on a port, each with the address (proc(5))."""
    if not table.exists():
        return
    for line in table.read_text().splitlines()[1:]:
        words = line.split()
        address, _, number = words[1].partition(":")
        if int(words[3], 16) == _LISTEN and int(number, 16) == port:
            yield int(words[7]), address
