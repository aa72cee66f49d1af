"""Measures which part of a card's time each container had between two collections of metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from gpupool.base.units import NANOS_PER_SECOND

#: Seconds that a rate is measured over at least; collections that follow sooner get the same rate.
RATE_SECONDS = 1.0

#: A container by pod uid and name, and a card by uuid.
SeatKey = tuple[str, str, str]


class UsageRates:
    """The rates of one node. `seconds` is a monotonic clock. May be used from several threads."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        #: By container and card: the instant of the last measurement in seconds, the GPU time in
        #: nanoseconds then, and the ratio.
        self._known: dict[SeatKey, tuple[float, int, float]] = {}

    def measure_ratios(self, gpu_ns: Mapping[SeatKey, int]) -> Mapping[SeatKey, float]:
        """Return the ratio of each container and card, from 0 to 1.

        Args:
            gpu_ns: GPU time that each container has used of a card so far, in nanoseconds.
        """
        now = self._seconds()
        with self._lock:
            measured = {}
            for key, used_ns in gpu_ns.items():
                known = self._known.get(key, (now, used_ns, 0.0))
                measured[key] = self._measure_next(known, now, used_ns)
            # Containers that have left are dropped with it.
            self._known = measured
            return {key: ratio for key, (_, _, ratio) in measured.items()}

    @staticmethod
    def _measure_next(
        known: tuple[float, int, float], now: float, gpu_ns: int
    ) -> tuple[float, int, float]:
        at, before, _ = known
        # Two scrapers would otherwise halve each other's interval until it measures nothing.
        if now - at < RATE_SECONDS:
            return known
        # A container that restarts counts from zero again: never a negative ratio.
        seconds_used = (gpu_ns - before) / NANOS_PER_SECOND
        return now, gpu_ns, min(1.0, max(0.0, seconds_used / (now - at)))
