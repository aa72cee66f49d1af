"""The newest sample of every card, in memory alone: samples are news, not truth."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.views import DeviceObservation
from gpupool.wire.samples import DeviceSample, UsageOut

#: Seconds after which a sample says nothing about now: nearly five heartbeats of an agent.
USAGE_FRESH_SECONDS = 120


class LatestSamples:
    """What the cards' agents said last. Thread-safe; a restarted server knows nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._observed: dict[str, DeviceObservation] = {}

    def record_samples(self, samples: Iterable[DeviceSample], now_ns: int) -> None:
        """Remember these samples; `now_ns` is ledger time."""
        with self._lock:
            for sample in samples:
                # A sample of health alone says nothing of use: the last use stays.
                if sample.usage != UsageOut() or sample.health is None:
                    self._observed[sample.uuid] = DeviceObservation(
                        now_ns, sample.usage, tuple(sample.unmanaged)
                    )

    def get_fresh(self, uuid: str, now_ns: int) -> DeviceObservation | None:
        """Return the latest sample of a card, unless it is too old."""
        with self._lock:
            seen = self._observed.get(uuid)
        if seen is None:
            return None
        age_ns = now_ns - seen.received_ns
        return seen if age_ns <= USAGE_FRESH_SECONDS * NANOS_PER_SECOND else None

    def list_busy_percent(self, now_ns: int) -> dict[str, float]:
        """List how busy cards say that they are, by uuid, without samples that are too old."""
        oldest_ns = now_ns - USAGE_FRESH_SECONDS * NANOS_PER_SECOND
        with self._lock:
            observed = list(self._observed.items())
        found = dict[str, float]()
        for uuid, seen in observed:
            percent = seen.usage.utilization_percent
            if percent is not None and seen.received_ns >= oldest_ns:
                found[uuid] = percent
        return found
