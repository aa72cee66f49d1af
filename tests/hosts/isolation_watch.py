"""Frames between the ports of tenants with the same addresses, and what arrives where.

One port of each tenant sends to every port of all tenants; every port listens all the time. Between
two probes frames go on, so that a leak of a moment is found too. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import random
import selectors
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.network.verification.probe_frames import (
    FORGED,
    HONEST,
    LINK_LOCAL,
    FrameEnd,
    build_frames,
    find_kind,
)

#: What the ports of networks without IPv6 send.
SENT: Final = (*HONEST, *FORGED, LINK_LOCAL)
#: Every frame of linux/if_ether.h, and the type of one that this machine sends (packet(7)).
_EVERY_FRAME: Final = 3
_OUTGOING: Final = 4
#: socket(7): beyond the usual limit, for root alone.
_SO_RCVBUFFORCE: Final = 33
_BUFFER: Final = 8 << 20
#: Behind the mark: what the frame is for, its sender, and its number.
_TAIL: Final = struct.Struct("!BHI")
_PROBE: Final = 0
_STORM: Final = 1
_PULSE: Final = 2
#: Frames that a sender sends before it waits for the switch: fewer than a socket's buffer has room
#: for (212,992 bytes, 768 for a small frame), and all senders together fewer than the backlog of a
#: processor (net.core.netdev_max_backlog, 1,000).
_BURST: Final = 32
#: Seconds between two steps of the storm, its frames in a step, and steps between two pulses.
_STEP_SECONDS: Final = 0.02
_STEP_FRAMES: Final = 8
_PULSE_STEPS: Final = 5
#: Seconds after which a pulse that a probe waits for is sent again.
_AGAIN_SECONDS: Final = 0.25


@dataclass(frozen=True)
class Station:
    """A port of a tenant.

    Attributes:
        router: of its network, in its subnet.
        outside: its network's gateway, where it has one.
    """

    tenant: str
    namespace: Path
    end: FrameEnd
    router: FrameEnd
    outside: IPv4Address | None = None


@dataclass
class FrameCounts:
    """What was sent and what arrived.

    Attributes:
        sent: frames to ports of other tenants, by kind.
        inside: frames that neighbours in the sender's own network got, by kind.
        leaks: frames where none may be, by a sentence.
    """

    sent: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)
    leaks: Counter[str] = field(default_factory=Counter)

    def add(self, other: FrameCounts) -> None:
        self.sent += other.sent
        self.inside += other.inside
        self.leaks += other.leaks


@dataclass(frozen=True)
class PulseReport:
    """How packets between neighbours went on.

    Attributes:
        lost: by tenant, pulses that did not arrive.
        longest_seconds: the longest time between two that arrived, of any tenant.
    """

    lost: Mapping[str, int]
    longest_seconds: float


@dataclass(frozen=True)
class _Frame:
    kind: str
    #: The tenant that it is meant for.
    target: str
    data: bytes


class IsolationWatch:
    """Sockets in the namespaces of all stations, a thread that reads, and one that sends.

    Use it as a context. `probe`, `begin_storm` and `end_storm` are called by one thread.
    """

    def __init__(self, stations: Sequence[Station], seed: int) -> None:
        """Make the watch. Each tenant has two stations or more; its first one sends."""
        self._stations = stations
        self._chance = random.Random(seed)
        self._mark = os.urandom(8)
        self._senders = dict[str, int]()
        self._neighbours = dict[str, int]()
        for number, station in enumerate(stations):
            if station.tenant not in self._senders:
                self._senders[station.tenant] = number
            else:
                self._neighbours.setdefault(station.tenant, number)
        self._sockets = list[socket.socket]()
        self._news = threading.Condition()
        self._counts = FrameCounts()
        self._pulses_sent: dict[str, set[int]] = defaultdict(set)
        self._arrivals: dict[str, dict[int, float]] = defaultdict(dict)
        self._number = 0
        self._ending = threading.Event()
        self._pausing = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._workers = ThreadPoolExecutor(1)
        self._storm: Future[None] | None = None
        self._outgoing = dict[str, socket.socket]()
        self._probes = {one: self._list_frames(one, _PROBE) for one in self._senders}

    def __enter__(self) -> IsolationWatch:
        for station in self._stations:
            self._sockets.append(_open(station.namespace))
        for tenant, number in self._senders.items():
            self._outgoing[tenant] = _open(self._stations[number].namespace, protocol=0)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pausing.set()
        self._workers.shutdown()
        self._ending.set()
        self._reader.join()
        for one in (*self._sockets, *self._outgoing.values()):
            one.close()

    def probe(self, seconds: float = 60.0, tenants: Iterable[str] = ()) -> FrameCounts:
        """Send every kind of frame from each tenant to every port, and return what arrived.

        A frame is counted once the switch has had it: behind each burst the sender's neighbour has
        to get a pulse, and a switch keeps the order of one port. Ends the storm.

        Args:
            seconds: in which packets have to pass at all.
            tenants: those that send; none: all.

        Raises AssertionError where they do not.
        """
        self.end_storm()
        deadline = time.monotonic() + seconds
        senders = list(tenants) or list(self._senders)
        self._fence(senders, deadline)
        with self._news:
            self._counts.inside.clear()
        for first in range(0, max(len(self._probes[one]) for one in senders), _BURST):
            for tenant in senders:
                for frame in self._probes[tenant][first : first + _BURST]:
                    self._send(tenant, frame)
            self._fence(senders, deadline)
        return self._take_counts()

    def count_honest(self, tenant: str) -> int:
        """Count the honest frames that a tenant's neighbour gets of a whole probe."""
        return sum(
            frame.target == tenant and frame.kind in HONEST for frame in self._probes[tenant]
        )

    def begin_storm(self) -> None:
        """Send pulses between neighbours and frames between tenants until the storm ends."""
        self._pausing.clear()
        self._storm = self._workers.submit(self._send_storm)

    def end_storm(self) -> None:
        """End the storm. Idempotent. Raises what ended it before."""
        self._pausing.set()
        if self._storm is not None:
            storm = self._storm
            self._storm = None
            storm.result()

    def take_pulses(self) -> PulseReport:
        """Report of the pulses since the last call. Call it behind a probe."""
        with self._news:
            lost = dict[str, int]()
            longest = 0.0
            for tenant, sent in self._pulses_sent.items():
                found = self._arrivals[tenant]
                missing = len(sent - found.keys())
                if missing:
                    lost[tenant] = missing
                times = sorted(found.values())
                for one, other in pairwise(times):
                    longest = max(longest, other - one)
            self._pulses_sent.clear()
            self._arrivals.clear()
        return PulseReport(lost, longest)

    def _take_counts(self) -> FrameCounts:
        with self._news:
            found = self._counts
            self._counts = FrameCounts()
        return found

    def _list_frames(self, tenant: str, purpose: int) -> list[_Frame]:
        """Frames to every port, to every one's address, and to the gateways of other tenants."""
        number = self._senders[tenant]
        source = self._stations[number]
        neighbour = self._stations[self._neighbours[tenant]]
        stranger = FrameEnd(neighbour.end.mac, source.router.address)
        token = self._mark + _TAIL.pack(purpose, number, 0)
        frames = list[_Frame]()

        def add(target: FrameEnd, owner: str, kinds: Sequence[str]) -> None:
            built = build_frames(source.end, target, stranger, token)
            frames.extend(_Frame(kind, owner, built[kind]) for kind in kinds)

        for station in self._stations:
            if station is not source:
                add(station.end, station.tenant, SENT)
            is_outside = station.outside is not None and station.tenant != tenant
            if is_outside and self._senders[station.tenant] == self._stations.index(station):
                outer = FrameEnd(source.router.mac, station.outside or IPv4Address(0))
                add(outer, station.tenant, ("udp", "tcp", "icmp"))
        addresses = {one.end.address for one in self._stations} - {source.end.address}
        for address in sorted(addresses):
            add(FrameEnd(b"\xff" * 6, address), tenant, SENT)
        return frames

    def _send(self, tenant: str, frame: _Frame) -> None:
        self._outgoing[tenant].send(frame.data)
        if frame.target != tenant:
            self._counts.sent[frame.kind] += 1

    def _pulse(self, tenant: str) -> int:
        """Send a packet to the neighbour; returns its number."""
        with self._news:
            self._number += 1
            number = self._number
        source = self._stations[self._senders[tenant]]
        target = self._stations[self._neighbours[tenant]]
        token = self._mark + _TAIL.pack(_PULSE, self._senders[tenant], number)
        frame = build_frames(source.end, target.end, source.router, token)["udp"]
        self._outgoing[tenant].send(frame)
        return number

    def _fence(self, tenants: Iterable[str], deadline: float) -> None:
        """Wait until the switch has had all that was sent.

        It takes frames in batches, and sends those of one flow of a batch on together: a pulse passes
        others of its own batch, and none of the batch before.
        """
        senders = list(tenants)
        for _ in range(2):
            self._await_pulses(senders, deadline)

    def _await_pulses(self, tenants: Iterable[str], deadline: float) -> None:
        waiting: dict[str, set[int]] = {tenant: {self._pulse(tenant)} for tenant in tenants}
        while True:
            with self._news:
                self._news.wait_for(lambda: not self._find_silent(waiting), _AGAIN_SECONDS)
                silent = self._find_silent(waiting)
            if not silent:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"no packet passes between neighbours of {sorted(silent)}")
            for tenant in silent:
                waiting[tenant].add(self._pulse(tenant))

    def _find_silent(self, waiting: Mapping[str, set[int]]) -> list[str]:
        return [
            tenant
            for tenant, numbers in waiting.items()
            if not numbers & self._arrivals[tenant].keys()
        ]

    def _send_storm(self) -> None:
        frames = list[tuple[str, _Frame]]()
        for tenant in self._senders:
            for frame in self._list_frames(tenant, _STORM):
                if frame.target != tenant or frame.kind in FORGED:
                    frames.append((tenant, frame))
        self._chance.shuffle(frames)
        step = 0
        while not self._pausing.wait(_STEP_SECONDS):
            for place in range(step * _STEP_FRAMES, (step + 1) * _STEP_FRAMES):
                self._send(*frames[place % len(frames)])
            if step % _PULSE_STEPS == 0:
                for tenant in self._senders:
                    number = self._pulse(tenant)
                    with self._news:
                        self._pulses_sent[tenant].add(number)
            step += 1

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for number, one in enumerate(self._sockets):
                selector.register(one, selectors.EVENT_READ, number)
            while not self._ending.is_set():
                for event, _ in selector.select(0.2):
                    self._drain(event.data)

    def _drain(self, number: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, address = self._sockets[number].recvfrom(2048)
                if address[2] != _OUTGOING:
                    self._note(self._stations[number], frame)

    def _note(self, station: Station, frame: bytes) -> None:
        place = frame.find(self._mark)
        if place < 0:
            return
        token = frame[place : place + len(self._mark) + _TAIL.size]
        kind = find_kind(frame, token)
        if kind is None:
            return
        purpose, sender, number = _TAIL.unpack_from(token, len(self._mark))
        source = self._stations[sender]
        with self._news:
            if source.tenant != station.tenant:
                self._counts.leaks[f"{kind} of {source.tenant} at {station.tenant}"] += 1
            elif kind in FORGED:
                self._counts.leaks[f"{kind} of {source.tenant} at its neighbour"] += 1
            elif purpose == _PULSE:
                self._arrivals[station.tenant][number] = time.monotonic()
                self._news.notify_all()
            elif station is not source:
                # What comes back to the sender is the answer of a router, as of port 9 unreachable.
                self._counts.inside[kind] += 1


def _open(namespace: Path, protocol: int = _EVERY_FRAME) -> socket.socket:
    with enter_namespace(namespace):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    opened.bind(("eth0", protocol))
    opened.setblocking(False)
    return opened
