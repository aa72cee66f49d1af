"""What came of the requests of services, since the server started and in the last minutes.

Labels are few: tenant, service, and the class of a status; never a path or a user. Thread-safe.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpupool.store.counters import LabelCounter, SecondsHistogram

#: Bounds in seconds: from an answer of a small model to a long text that is streamed.
BOUNDS: Final = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
#: The answer broke off; the caller left before its end.
BROKEN: Final = "broken"
LEFT: Final = "left"
#: Classes of statuses; 1xx is a WebSocket.
OUTCOMES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx", BROKEN, LEFT)
ERRORS: Final = frozenset({"5xx", BROKEN})
#: Why the pool answered in the replicas' place: GP-2254, GP-2253 and GP-2255.
BUSY: Final = "busy"
NOT_READY: Final = "not-ready"
SILENT: Final = "replica-silent"
REJECTS: Final = (BUSY, NOT_READY, SILENT)
#: Seconds that the reported figures cover, and of the pieces in which they are kept.
RECENT_SECONDS: Final = 300
_SLOT_SECONDS: Final = 10


class ServiceLabels(NamedTuple):
    """How a service is named in metrics."""

    tenant: str
    service: str


@dataclass(frozen=True)
class RecentRequests:
    """The requests of the last minutes that were answered; quantiles are estimates, None: unknown.

    Attributes:
        seconds: how long that was; less soon after a start of the server.
    """

    seconds: float
    requests: int
    errors: int
    p50_seconds: float | None
    p95_seconds: float | None


@dataclass
class _Slot:
    begin: int
    requests: int = 0
    errors: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class ServiceTraffic:
    """Counters of all services. A service that is gone is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self.requests = LabelCounter()
        self.seconds = SecondsHistogram(BOUNDS)
        self.cold_starts = LabelCounter()
        self.rejects = LabelCounter()
        self._lock = threading.Lock()
        self._slots: dict[ServiceLabels, deque[_Slot]] = {}

    def note_answer(self, labels: ServiceLabels, outcome: str, seconds: float | None) -> None:
        """Count a request.

        Args:
            labels: of its service.
            outcome: one of `OUTCOMES`.
            seconds: until the end of its answer; None: not counted, as of a WebSocket.
        """
        self.requests.add(1, *labels, outcome)
        if seconds is not None:
            self.seconds.observe(seconds, *labels)
        begin = int(self._clock()) // _SLOT_SECONDS * _SLOT_SECONDS
        with self._lock:
            slots = self._slots.setdefault(labels, deque(maxlen=RECENT_SECONDS // _SLOT_SECONDS))
            if not slots or slots[-1].begin != begin:
                slots.append(_Slot(begin))
            slots[-1].requests += 1
            slots[-1].errors += outcome in ERRORS
            if seconds is not None:
                slots[-1].counts[bisect.bisect_left(BOUNDS, seconds)] += 1

    def note_cold_start(self, labels: ServiceLabels) -> None:
        """Count that requests begin to wait for a first replica."""
        self.cold_starts.add(1, *labels)

    def note_reject(self, labels: ServiceLabels, reason: str) -> None:
        """Count a request that the pool answered in the replicas' place; see `REJECTS`."""
        self.rejects.add(1, *labels, reason)

    def read_recent(self, labels: ServiceLabels) -> RecentRequests | None:
        """Return the requests of the last minutes; None: there was none."""
        now = self._clock()
        oldest = now - RECENT_SECONDS
        with self._lock:
            slots = [one for one in self._slots.get(labels, ()) if one.begin > oldest]
            requests = sum(one.requests for one in slots)
            errors = sum(one.errors for one in slots)
            columns = zip(*(one.counts for one in slots), strict=True)
            counts = [sum(column) for column in columns]
        if not requests:
            return None
        return RecentRequests(
            min(float(RECENT_SECONDS), max(1.0, now - self._since)),
            requests,
            errors,
            estimate_quantile(counts, 0.50),
            estimate_quantile(counts, 0.95),
        )

    def forget_others(self, known: Collection[ServiceLabels]) -> None:
        """Forget services that are no more."""
        kept = frozenset(known)
        names = frozenset(map(tuple, kept))
        for counter in (self.requests, self.seconds, self.cold_starts, self.rejects):
            counter.keep(lambda labels: labels[: len(ServiceLabels._fields)] in names)
        with self._lock:
            for labels in set(self._slots) - kept:
                del self._slots[labels]


def estimate_quantile(counts: Sequence[int], part: float) -> float | None:
    """Estimate a quantile of seconds, as Prometheus' `histogram_quantile` does.

    Within a bucket times are taken as evenly spread; above the last bound it is that bound.

    Args:
        counts: by bucket of `BOUNDS`, the last one above all of them.
        part: between 0 and 1.
    """
    total = sum(counts)
    if not total:
        return None
    wanted = part * total
    below = 0
    for place, count in enumerate(counts[:-1]):
        if count and below + count >= wanted:
            low = BOUNDS[place - 1] if place else 0.0
            return low + (BOUNDS[place] - low) * (wanted - below) / count
        below += count
    return BOUNDS[-1]
