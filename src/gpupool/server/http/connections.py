"""How many connections are open, and which source may open another.

Pure counting, used on the event loop alone. A pool has a limited number of descriptors, and every
connection takes one. So every source, a Unix account or a network address, has a bound, and a
reserve of the pool's total is for root, the pool's owner and the embedded agent: other users cannot
lock out the administrators that could stop them. (Decision 0019.)
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from gpupool.base.errors import GpupoolError, PoolFull, TooManyConnections
from gpupool.base.health import CheckFinding, fail, warn, well
from gpupool.tenancy.access import PeerProcess

#: Connections of one source, where there are descriptors for it: 200 attached jobs and their
#: command lines.
PER_SOURCE = 256
#: Connections of the pool: about 40 KiB each.
TOTAL = 4096
#: Descriptors that are no caller's: the store, logs, jobs' sockets, and connections that are being
#: refused.
SPARE_DESCRIPTORS = 640
#: Descriptors that the server asks for, as the agent does.
WANTED_DESCRIPTORS = 65536
#: Part of the connections from which on the pool says that they are nearly used up.
NEARLY_FULL = 0.8
#: Seconds until a refused caller is to ask again.
RETRY_SECONDS = 5


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be.

    `reserve` of `total` is for root, the owner and the agent; `of_agent` of it for the agent alone.
    """

    total: int = TOTAL
    per_source: int = PER_SOURCE
    reserve: int = 64
    of_agent: int = 16
    #: Of one address at a time; of all addresses an eighth of `total`.
    handshakes: int = 128

    @classmethod
    def within(cls, descriptors: int, per_source: int = PER_SOURCE) -> ConnectionLimits:
        """What so many descriptors allow.

        >>> ConnectionLimits.within(65536), ConnectionLimits.within(1024)
        (ConnectionLimits(total=4096, per_source=256, reserve=64, of_agent=16, handshakes=128), \
ConnectionLimits(total=384, per_source=96, reserve=64, of_agent=16, handshakes=24))
        """
        total = max(128, min(TOTAL, descriptors - SPARE_DESCRIPTORS))
        return cls(
            total,
            max(16, min(per_source, total // 4)),
            handshakes=max(8, min(per_source // 2, total // 16)),
        )


def allow_descriptors() -> int:
    """Raise this process's soft limit of descriptors as far as it may; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class OpenConnections:
    """The connections that are open now."""

    def __init__(
        self, limits: ConnectionLimits | None = None, owner_uid: int | None = None
    ) -> None:
        self.limits = limits or ConnectionLimits()
        self._owner_uid = os.getuid() if owner_uid is None else owner_uid
        self._by_source: Counter[Hashable] = Counter()
        self._shaking: Counter[str] = Counter()
        self._tcp = 0
        self.open = 0
        self.refused = 0

    def admit(self, peer: PeerProcess | None, address: str) -> GpupoolError | None:
        """Count a new connection, or say why it is refused; then it is not counted."""
        why = self._find_refusal(peer, address)
        if why is not None:
            self.refused += 1
            return why
        self._by_source[_name_source(peer, address)] += 1
        self._tcp += peer is None
        self.open += 1
        return None

    def note_end(self, peer: PeerProcess | None, address: str) -> None:
        """Count an admitted connection off."""
        source = _name_source(peer, address)
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]
        self._tcp -= peer is None
        self.open -= 1

    def begin_handshake(self, address: str) -> bool:
        """Count a connection whose TLS handshake begins; False where it is to be closed at once.

        Before its handshake a connection cannot be told anything; after it the usual bounds hold.
        """
        limits = self.limits
        if (
            self._shaking[address] >= limits.handshakes
            or self._shaking.total() >= limits.total // 8
        ):
            self.refused += 1
            return False
        self._shaking[address] += 1
        return True

    def end_handshake(self, address: str) -> None:
        """Count off a handshake that is done, has failed, or took too long."""
        self._shaking[address] -= 1
        if not self._shaking[address]:
            del self._shaking[address]

    @property
    def shaking(self) -> int:
        """Connections in their handshake now."""
        return self._shaking.total()

    def check(self) -> CheckFinding:
        """Check whether callers find a connection free; asked from any thread."""
        most = self.limits.total - self.limits.reserve
        shaking = f", {self.shaking} in a TLS handshake" if self.shaking else ""
        told = f"{self.open} of {most} connections open{shaking}, {self.refused} refused since the start"
        if self.open >= most:
            return fail(
                f"{told}; only root and the owner get in",
                "ss -xp | grep gpupool.sock  shows whose they are",
            )
        if self.open >= most * NEARLY_FULL:
            return warn(told, "ss -xp | grep gpupool.sock  shows whose they are")
        return well(told)

    def _find_refusal(self, peer: PeerProcess | None, address: str) -> GpupoolError | None:
        limits = self.limits
        most = self.limits.total
        # The embedded agent is a client in this very process.
        if peer is not None and peer.pid == os.getpid():
            return self._check_total(most)
        if peer is not None and peer.uid in (0, self._owner_uid):
            return self._check_total(most - limits.of_agent)
        mine = self._by_source[_name_source(peer, address)]
        if mine >= limits.per_source:
            who = f"uid {peer.uid}" if peer is not None else address
            return TooManyConnections(
                f"{who} has {mine} connections to the pool, which is as many as one caller may "
                "have",
                hint=f"close some, and ask again in {RETRY_SECONDS} s; one `watch` can serve many "
                "readers",
                open=mine,
                most=limits.per_source,
                retry_after_seconds=RETRY_SECONDS,
            )
        # TCP callers get half: a flood from many addresses leaves the socket's users their part.
        if peer is None and self._tcp >= (most - limits.reserve) // 2:
            return self._make_pool_full(self._tcp, (most - limits.reserve) // 2)
        return self._check_total(most - limits.reserve)

    def _check_total(self, most: int) -> GpupoolError | None:
        return None if self.open < most else self._make_pool_full(self.open, most)

    def _make_pool_full(self, count: int, most: int) -> GpupoolError:
        return PoolFull(
            f"the pool has {count} connections of callers like this one, which is as many as it "
            "takes",
            hint=f"ask again in {RETRY_SECONDS} s; root can see with  ss -xp | grep gpupool.sock  "
            "whose they are",
            open=count,
            most=most,
            retry_after_seconds=RETRY_SECONDS,
        )


def _name_source(peer: PeerProcess | None, address: str) -> Hashable:
    return ("uid", peer.uid) if peer is not None else ("address", address)
