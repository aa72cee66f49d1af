"""Probes floating IPs from the outer side of the gateway: a ping to each, as one from outside goes.

The machine translates it like what comes from outside, the gateway to the job. Where no answer
comes, the neighbor table says whether the gateway at least answers for the address.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import time
from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Any, Final

from gpupool.agent.network.namespaces import import_pyroute2
from gpupool.wire.network.floating_ips import FloatingIpReport, FloatingIpWork

#: Seconds in which an answer has to come, and between two pings of a job that has answered.
_ANSWER_SECONDS: Final = 0.3
_CALM_SECONDS: Final = 10.0
#: ICMP's header (RFC 792): type, code, checksum, identifier, number.
_HEADER: Final = struct.Struct("!BBHHH")
_ECHO: Final = 8
_ECHO_REPLY: Final = 0
#: `NUD_INCOMPLETE` and `NUD_FAILED` of <linux/neighbour.h>.
_UNRESOLVED: Final = 0x01 | 0x20

log = logging.getLogger(__name__)


class FloatingProbe:
    """The probes of one machine. One thread."""

    def __init__(self) -> None:
        self._reports = dict[str, FloatingIpReport]()
        self._due = dict[str, float]()

    def probe(
        self, floating: Iterable[FloatingIpWork], source: IPv4Address, cable: str
    ) -> list[FloatingIpReport]:
        """Probe those that are due, and say how all of them are. Blocks for a moment.

        Args:
            source: of the pings: the machine's address on the cable.
            cable: interface to the gateways.
        """
        wanted = {one.id: one for one in floating}
        now = time.monotonic()
        due = [one for one in wanted.values() if now >= self._due.get(one.id, 0)]
        found = self._probe_now(due, source, cable) if due else {}
        self._reports = {key: one for key, one in (self._reports | found).items() if key in wanted}
        for key, report in found.items():
            self._due[key] = now + (_CALM_SECONDS if report.state == "reachable" else 0)
        self._due = {key: when for key, when in self._due.items() if key in wanted}
        return [self._reports[key] for key in wanted]

    def forget(self) -> None:
        """Forget what was seen: this machine does not have the gateways now."""
        self._reports.clear()
        self._due.clear()

    def _probe_now(
        self, due: list[FloatingIpWork], source: IPv4Address, cable: str
    ) -> dict[str, FloatingIpReport]:
        try:
            answered = ping_all([one.address for one in due], str(source))
            resolved = _read_resolved(cable)
        except OSError as error:
            reason = f"this machine cannot probe: {error}"[:400]
            return {one.id: FloatingIpReport(id=one.id, state="down", reason=reason) for one in due}
        return {one.id: judge(one, answered, resolved, source) for one in due}


def judge(
    work: FloatingIpWork, answered: set[str], resolved: set[str], source: IPv4Address
) -> FloatingIpReport:
    """Say how a floating IP is. Pure.

    Args:
        answered: floating IPs whose jobs answered a ping.
        resolved: addresses on the cable for which gateways answer ARP.
    """
    if work.address in answered:
        reason = "the job answers a ping through the gateway"
        return FloatingIpReport(id=work.id, state="reachable", reason=reason)
    if work.inner in resolved:
        reason = (
            f"the gateway answers for it, and the job answers no ping of {source}: its security "
            "groups may not take icmp"
        )
        return FloatingIpReport(id=work.id, state="silent", reason=reason)
    return FloatingIpReport(
        id=work.id, state="down", reason="the gateway does not answer for it yet"
    )


def ping_all(addresses: list[str], source: str) -> set[str]:
    """Ping addresses at once; returns those that answered. Needs root; raises OSError."""
    identifier = int.from_bytes(os.urandom(2))
    answered = set[str]()
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as channel:
        channel.bind((source, 0))
        channel.setblocking(False)
        for number, address in enumerate(addresses):
            _send(channel, make_echo(identifier, number), address)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(answered) < len(addresses):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([channel], [], [], left)[0]:
                break
            answer = read_echo_reply(channel.recv(2048), identifier)
            if answer is not None and answer < len(addresses):
                answered.add(addresses[answer])
    return answered


def _send(channel: socket.socket, packet: bytes, address: str) -> None:
    try:
        channel.sendto(packet, (address, 0))
    except OSError as error:
        # A full buffer, no route, or an ICMP error of an earlier one: no answer this time.
        log.debug("no ping to %s: %s", address, error)


def make_echo(identifier: int, number: int) -> bytes:
    """Make an echo request of eight bytes."""
    body = bytes(8)
    words = struct.unpack("!8H", _HEADER.pack(_ECHO, 0, 0, identifier, number) + body)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return _HEADER.pack(_ECHO, 0, checksum, identifier, number) + body


def read_echo_reply(packet: bytes, identifier: int) -> int | None:
    """Return the number of an answer to one of our requests; None for any other packet.

    Args:
        packet: with its IPv4 header (raw(7)).
    """
    begin = 4 * (packet[0] & 0x0F) if packet else 0
    if len(packet) < begin + _HEADER.size:
        return None
    kind, _, _, found, number = _HEADER.unpack_from(packet, begin)
    return int(number) if (kind, found) == (_ECHO_REPLY, identifier) else None


def _read_resolved(cable: str) -> set[str]:
    """Read the addresses on the cable whose MAC address the kernel knows."""
    found = set[str]()
    with import_pyroute2().IPRoute() as host:
        for index in host.link_lookup(ifname=cable):
            for entry in host.get_neighbours(family=socket.AF_INET, ifindex=index):
                found |= _resolve(entry)
    return found


def _resolve(entry: Any) -> set[str]:
    is_known = entry.get_attr("NDA_LLADDR") and not entry["state"] & _UNRESOLVED
    return {str(entry.get_attr("NDA_DST"))} if is_known else set()
