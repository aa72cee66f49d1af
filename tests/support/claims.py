"""Numbers that a machine has once, as TCP ports and networks: each for one test process at a time.

A port that the kernel named as free may be taken before it is listened on: by another test that
asked, or by any connection to a server, whose own end gets such a port too. A claim is an abstract
Unix socket, so that it ends with its process, however that ends.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

#: Below those that Linux gives to clients (32768 and up) and those of the tests' clusters (20000
#: and up).
PORTS: Final = range(11_000, 20_000)
_for_good: list[socket.socket] = []


class NothingFreeError(Exception):
    """Every number is claimed."""


@contextmanager
def claimed(kind: str, numbers: Sequence[int]) -> Iterator[int]:
    """One of the numbers, which nobody else gets until the end. Raises NothingFreeError."""
    number, held = _claim(kind, numbers)
    with held:
        yield number


def claim_port() -> int:
    """A TCP port on which nothing listens at any address; it stays this process's as long as that
    runs."""
    port, held = _claim_free_port()
    _for_good.append(held)
    return port


@contextmanager
def claimed_port() -> Iterator[int]:
    """The same until the end of the block, for one that needs many of them in turn."""
    port, held = _claim_free_port()
    with held:
        yield port


def _claim_free_port() -> tuple[int, socket.socket]:
    while True:
        port, held = _claim("port", PORTS)
        if _is_free(port):
            return port, held
        # Held for good: the next look goes on behind it.
        _for_good.append(held)


def _claim(kind: str, numbers: Sequence[int]) -> tuple[int, socket.socket]:
    begin = os.getpid() % len(numbers)
    for number in (*numbers[begin:], *numbers[:begin]):
        held = socket.socket(socket.AF_UNIX)
        try:
            held.bind(f"\0gpupool-tests/{kind}/{number}")
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return number, held
    raise NothingFreeError(f"every {kind} from {numbers[0]} to {numbers[-1]} is claimed")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
