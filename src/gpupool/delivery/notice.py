"""Tell the service manager that the pool answers (sd_notify(3)); does nothing without one."""

from __future__ import annotations

import socket
from collections.abc import MutableMapping
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


def take_notice_address(environ: MutableMapping[str, str]) -> str:
    """Take the address of the service manager; empty where there is none.

    It is removed from the environment: the server and its jobs are not the service.
    """
    return environ.pop(VARIABLE, "")


def send_ready(address: str) -> None:
    """Tell the service manager that the service is ready. Does not block."""
    if not address:
        return
    # A leading @ stands for a name in the abstract namespace; unix(7).
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.connect(target)
        channel.send(b"READY=1\nSTATUS=the pool answers")
