"""Sends packets from one network namespace to another and counts what arrives: the rate of a path.

Only payload counts, as programs count it. Needs root; blocks for the time of the measurement.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Literal

from gpupool.agent.network.namespaces import enter_namespace

TrafficProtocol = Literal["tcp", "udp"]

#: Payload of a UDP packet in a network with an MTU of 1442: 20 bytes of IP and 8 of UDP less.
_DATAGRAM: Final = 1414
_CHUNK: Final = 64 * 1024
#: Seconds between two bursts of a paced sender, and after which a socket looks at the time.
_PACE_SECONDS: Final = 0.002
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True)
class TrafficPlan:
    """How a path is measured.

    Attributes:
        offered_kbit: what a UDP sender sends; TCP finds its rate itself.
        seconds: time of the measurement, behind the start.
        start_seconds: what is not counted: slow start of TCP, and bursts that a limit lets through.
    """

    protocol: TrafficProtocol
    offered_kbit: int
    seconds: float = 2.0
    start_seconds: float = 1.0


@dataclass(frozen=True)
class TrafficEnd:
    """One end of a path: a namespace and its address."""

    namespace: Path
    address: IPv4Address


@dataclass(frozen=True)
class TrafficRate:
    """What a measurement found, in kbit/s.

    Attributes:
        sent_kbit: what the sender handed to its kernel.
        received_bytes: all that arrived, also during the start.
    """

    received_kbit: int
    sent_kbit: int
    received_bytes: int


class _Counter:
    """Counts bytes that come within a window of time."""

    def __init__(self, plan: TrafficPlan) -> None:
        self._begin = time.monotonic() + plan.start_seconds
        self.end = self._begin + plan.seconds
        self._seconds = plan.seconds
        self._bytes = 0
        #: Also those before the window.
        self.all_bytes = 0

    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def add(self, count: int) -> None:
        self.all_bytes += count
        if self._begin <= time.monotonic() < self.end:
            self._bytes += count

    def find_rate(self) -> int:
        return int(self._bytes * 8 / 1000 / self._seconds)


def measure_path(source: TrafficEnd, target: TrafficEnd, plan: TrafficPlan) -> TrafficRate:
    """Measure what arrives at a target. Raises OSError where TCP does not connect within 5 s."""
    kind = socket.SOCK_STREAM if plan.protocol == "tcp" else socket.SOCK_DGRAM
    with contextlib.ExitStack() as stack:
        with enter_namespace(target.namespace):
            receiver = stack.enter_context(socket.socket(socket.AF_INET, kind))
        with enter_namespace(source.namespace):
            sender = stack.enter_context(socket.socket(socket.AF_INET, kind))
        # Of this address: a namespace can have more, and other jobs' ports are left free.
        receiver.bind((str(target.address), 0))
        sender.bind((str(source.address), 0))
        if kind == socket.SOCK_STREAM:
            receiver.listen(1)
            sender.settimeout(5.0)
        sender.connect(receiver.getsockname())
        if kind == socket.SOCK_STREAM:
            receiver, _ = receiver.accept()
            stack.enter_context(receiver)
        return measure_sockets(sender, receiver, plan)


def measure_sockets(
    sender: socket.socket, receiver: socket.socket, plan: TrafficPlan
) -> TrafficRate:
    """Measure what passes between two connected sockets."""
    received = _Counter(plan)
    sent = _Counter(plan)
    receiver.settimeout(_LOOK_SECONDS)
    sender.settimeout(_LOOK_SECONDS)
    thread = threading.Thread(target=_receive, args=(receiver, received), daemon=True)
    thread.start()
    _send(sender, sent, plan)
    thread.join()
    return TrafficRate(received.find_rate(), sent.find_rate(), received.all_bytes)


def _receive(receiver: socket.socket, counter: _Counter) -> None:
    buffer = bytearray(_CHUNK)
    while not counter.is_over():
        with contextlib.suppress(TimeoutError):
            counter.add(receiver.recv_into(buffer))


def _send(sender: socket.socket, counter: _Counter, plan: TrafficPlan) -> None:
    if plan.protocol == "tcp":
        chunk = bytes(_CHUNK)
        while not counter.is_over():
            with contextlib.suppress(TimeoutError):
                counter.add(sender.send(chunk))
        return
    datagram = bytes(_DATAGRAM)
    begin = time.monotonic()
    count = 0
    while not counter.is_over():
        due = int((time.monotonic() - begin) * plan.offered_kbit * 125 / _DATAGRAM)
        if count >= due:
            time.sleep(_PACE_SECONDS)
            continue
        # A sender that is held up sends no more than it would have: it does not catch up.
        count = max(count, due - 200)
        # No buffer, or refused by the target's kernel once it has closed its socket.
        with contextlib.suppress(TimeoutError, ConnectionRefusedError, BlockingIOError):
            counter.add(sender.send(datagram))
        count += 1
