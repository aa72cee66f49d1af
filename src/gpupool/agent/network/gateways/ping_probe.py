"""Pings an address from a network namespace, 50 times a second, and says how long no answer came."""

from __future__ import annotations

import bisect
import itertools
import select
import socket
import struct
import threading
import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace

#: Seconds between two pings.
INTERVAL_SECONDS: Final = 0.02
#: ICMP's header with its number (RFC 792). The kernel fills in checksum and identifier.
_HEADER: Final = struct.Struct("!BBHHH")
_ECHO: Final = 8
_ECHO_REPLY: Final = 0


class PingProbe:
    """Pings until `stop`. Its thread sends; others read what came."""

    def __init__(self, namespace: Path, target: IPv4Address) -> None:
        """Open the socket. Raises OSError."""
        with enter_namespace(namespace):
            # A socket of the group `ping_group_range` (icmp(7)): its answers are its own alone.
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
        self._socket.setblocking(False)
        self._target = str(target)
        self._news = threading.Condition()
        self._answers = list[float]()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ping-probe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def wait_for_answers(self, count: int, since: float, seconds: float) -> bool:
        """Block until so many answers have come since an instant; false when the time is over."""
        with self._news:
            return self._news.wait_for(lambda: self.count_answers(since) >= count, seconds)

    def count_answers(self, since: float) -> int:
        """Count answers since an instant (monotonic seconds)."""
        return len(self._answers) - bisect.bisect_left(self._answers, since)

    def find_outage(self, since: float) -> float:
        """Return the longest time without an answer, from the last answer before an instant on.

        The time between two answers that follow each other is none.
        """
        first = bisect.bisect_left(self._answers, since)
        before = self._answers[first - 1] if first else since
        instants = [before, *self._answers[first:], time.monotonic()]
        longest = max(later - earlier for earlier, later in itertools.pairwise(instants))
        return max(0.0, longest - INTERVAL_SECONDS)

    def _run(self) -> None:
        number = 0
        due = time.monotonic()
        while not self._stopping.is_set():
            self._ping(number)
            number = (number + 1) % 0x10000
            due += INTERVAL_SECONDS
            now = time.monotonic()
            if now > due + 1.0:
                # It got no processor: pings that were due then are not caught up on.
                due = now
            self._read_until(due)

    def _ping(self, number: int) -> None:
        packet = _HEADER.pack(_ECHO, 0, 0, 0, number) + bytes(8)
        try:
            self._socket.sendto(packet, (self._target, 0))
        except OSError:
            # No route at this moment, or an ICMP error of an earlier ping: one answer less.
            return

    def _read_until(self, due: float) -> None:
        while not self._stopping.is_set():
            left = due - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                return
            try:
                answer = self._socket.recv(256)
            except OSError:
                continue
            if answer[:1] == bytes([_ECHO_REPLY]):
                with self._news:
                    self._answers.append(time.monotonic())
                    self._news.notify_all()
