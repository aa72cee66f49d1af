"""Watches an interface outside: its carrier, and whether addresses there answer ARP.

Misses are counted in questions, not in time: a watchdog that got no processor for a while judges
no one for it.
"""

from __future__ import annotations

import fcntl
import logging
import select
import socket
import struct
import time
from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Final

from gpupool.agent.network.gateways.arp_frames import (
    BROADCAST,
    make_announcement,
    make_probe,
    read_reply,
)

#: Of <linux/if_ether.h>.
_ARP_PROTOCOL: Final = 0x0806
#: Of <linux/sockios.h> and <linux/if.h>: `IFF_UP` and `IFF_RUNNING`.
_SIOCGIFFLAGS: Final = 0x8913
_UP_AND_RUNNING: Final = 0x41
#: Questions without an answer after which a broadcast asks again for the MAC address.
_FORGET: Final = 2

log = logging.getLogger(__name__)


class UplinkWatch:
    """The look at one interface. One thread."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket: socket.socket | None = None
        self._mac = b""
        self._macs = dict[IPv4Address, bytes]()
        #: By address, the questions since its last answer.
        self._misses = dict[IPv4Address, int]()

    def close(self) -> None:
        """Close all that is open. Idempotent."""
        self._control.close()
        self._close_socket()

    def has_carrier(self) -> bool:
        """Whether the interface is there, up, and has a carrier."""
        # Not from sysfs, which may be mounted for another network namespace.
        request = struct.pack("16sH14x", self._interface.encode(), 0)
        try:
            answer = fcntl.ioctl(self._control, _SIOCGIFFLAGS, request)
        except OSError:
            return False
        flags: int = struct.unpack_from("16xH", answer)[0]
        return flags & _UP_AND_RUNNING == _UP_AND_RUNNING

    def count_misses(self, address: IPv4Address) -> int:
        """Return how many of the last questions for an address had no answer."""
        return self._misses.get(address, 0)

    def ask(self, addresses: Iterable[IPv4Address]) -> None:
        """Ask for addresses. Does not block; a question that cannot be sent is a miss."""
        for address in addresses:
            missed = self._misses.get(address, 0)
            self._misses[address] = missed + 1
            known = self._macs.get(address, BROADCAST) if missed < _FORGET else BROADCAST
            if self._open():
                self._send(make_probe(self._mac, address, known))

    def announce(self, address: IPv4Address) -> None:
        """Say that an address is here."""
        if self._open():
            self._send(make_announcement(self._mac, address))

    def read_answers(self, seconds: float) -> None:
        """Read answers for that time, as they come."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            if self._socket is None:
                time.sleep(left)
            elif select.select([self._socket], [], [], left)[0]:
                self._read_one(self._socket)
                continue
            return

    def forget(self, address: IPv4Address) -> None:
        """Count misses of an address from now on."""
        self._misses.pop(address, None)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read_one(self, channel: socket.socket) -> None:
        try:
            answer = read_reply(channel.recv(128))
        except OSError as error:
            log.info("%s: %s", self._interface, error)
            self._close_socket()
            return
        if answer is not None and answer.address in self._misses:
            self._misses[answer.address] = 0
            self._macs[answer.address] = answer.mac

    def _send(self, frame: bytes) -> None:
        try:
            if self._socket is not None:
                self._socket.send(frame)
        except OSError as error:
            # The interface is down or gone: it is opened again with the next question.
            log.debug("%s: %s", self._interface, error)
            self._close_socket()

    def _open(self) -> bool:
        """Open the interface where it is not open; false where it cannot be."""
        if self._socket is not None:
            return True
        channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP_PROTOCOL))
        try:
            channel.bind((self._interface, 0))
        except OSError as error:
            log.debug("%s: %s", self._interface, error)
            channel.close()
            return False
        channel.setblocking(False)
        self._mac = channel.getsockname()[4]
        self._socket = channel
        return True
