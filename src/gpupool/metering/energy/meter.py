"""Makes spans of measured energy from the samples of cards, in memory.

A span lies between two samples of one card. Its energy is the difference of the card's own counter
where both samples have one, else mean power times time. A longer gap is unknown and makes no span.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.energy.division import PowerSpan
from gpupool.wire.samples import JobSample, UsageOut

#: Seconds between two samples beyond which nothing is known of the time between: two heartbeats of
#: an agent (25 s), and what an answer may take.
LONGEST_GAP_S: Final = 60
#: Seconds after which a span is dropped: a minute before the charges of its hour may be made, and
#: its month sealed.
LATE_S: Final = 540
#: Seconds between two writes.
WRITE_EVERY_S: Final = 60


class _CardReading(NamedTuple):
    """What a card said last, by the agent's clock and by the ledger's."""

    at_ns: int
    received_ns: int
    power_watts: float | None
    energy_millijoules: int | None


class _JobReading(NamedTuple):
    gpu_nanoseconds: int
    received_ns: int


@dataclass(frozen=True)
class SpanBatch:
    """Spans that one transaction writes. Written twice under one name they count once."""

    name: str
    spans: tuple[PowerSpan, ...]


class EnergyMeter:
    """Thread-safe. Lost with the server: the time since the last write is then not measured."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cards: dict[int, _CardReading] = {}
        self._jobs: dict[tuple[str, str], _JobReading] = {}
        # GPU time since the last sample of a card, by its uuid and by job.
        self._uses: dict[str, dict[str, int]] = defaultdict(dict)
        self._pending: list[PowerSpan] = []
        self._batch: SpanBatch | None = None
        self._taken_ns: int | None = None

    def add_samples(
        self,
        cards: Iterable[tuple[int, str, UsageOut]],
        jobs: Iterable[JobSample],
        now_ns: int,
    ) -> None:
        """Take in what an agent measured at one moment.

        Args:
            cards: Row id, uuid and sample of each card.
            jobs: Samples of the agent's own jobs.
            now_ns: The ledger's time.
        """
        with self._lock:
            for job in jobs:
                self._add_job(job, now_ns)
            for device_id, name, usage in cards:
                self._add_card(device_id, name, usage, now_ns)

    def take_batch(self, now_ns: int) -> SpanBatch | None:
        """Return what is due to be written, the same until `drop_batch`; None: nothing is."""
        with self._lock:
            if self._batch is None and self._is_due(now_ns):
                self._forget_old(now_ns)
                self._taken_ns = now_ns
                if self._pending:
                    self._batch = SpanBatch(uuid.uuid4().hex, tuple(self._pending))
                    self._pending = []
            return self._batch

    def drop_batch(self, batch: SpanBatch) -> None:
        """Drop a batch that is written."""
        with self._lock:
            if self._batch is batch:
                self._batch = None

    def _is_due(self, now_ns: int) -> bool:
        if not self._pending:
            return False
        taken_ns = self._taken_ns
        return taken_ns is None or now_ns - taken_ns >= WRITE_EVERY_S * NANOS_PER_SECOND

    def _forget_old(self, now_ns: int) -> None:
        oldest_ns = now_ns - LATE_S * NANOS_PER_SECOND
        self._pending = [span for span in self._pending if span.end_ns > oldest_ns]
        for key in [key for key, seen in self._jobs.items() if seen.received_ns < oldest_ns]:
            del self._jobs[key]

    def _add_job(self, sample: JobSample, now_ns: int) -> None:
        for card in sample.cards or ():
            key = (sample.job, card.uuid)
            before = self._jobs.get(key)
            self._jobs[key] = _JobReading(card.gpu_nanoseconds, now_ns)
            # A first sum is since the job began, and one that went back is of a new start.
            if before is not None and card.gpu_nanoseconds >= before.gpu_nanoseconds:
                uses = self._uses[card.uuid]
                used = card.gpu_nanoseconds - before.gpu_nanoseconds
                uses[sample.job] = uses.get(sample.job, 0) + used

    def _add_card(self, device_id: int, name: str, usage: UsageOut, now_ns: int) -> None:
        if usage.power_watts is None and usage.energy_millijoules is None:
            # A sample of health alone says nothing of power; what is known stays.
            return
        at_ns = now_ns if usage.at_ns is None else usage.at_ns
        before = self._cards.get(device_id)
        if before is not None and at_ns == before.at_ns:
            return  # sent again
        now = _CardReading(at_ns, now_ns, usage.power_watts, usage.energy_millijoules)
        self._cards[device_id] = now
        uses = self._uses.pop(name, {})
        energy = None if before is None else measure_energy(before, now)
        if before is None or energy is None:
            return
        span = PowerSpan(device_id, before.received_ns, now_ns, energy, uses)
        self._pending.append(span)
        if len(self._pending) % 10_000 == 0:
            self._forget_old(now_ns)


def measure_energy(before: _CardReading, now: _CardReading) -> int | None:
    """Measure millijoules between two readings; None: unknown.

    Unknown are a gap, a clock that went back, and a power that one of the readings lacks.
    """
    longest_ns = LONGEST_GAP_S * NANOS_PER_SECOND
    elapsed_ns = now.at_ns - before.at_ns
    counted_ns = now.received_ns - before.received_ns
    if not 0 < elapsed_ns <= longest_ns or not 0 < counted_ns <= longest_ns:
        return None
    if before.energy_millijoules is not None and now.energy_millijoules is not None:
        difference = now.energy_millijoules - before.energy_millijoules
        if difference > 0:
            return difference
        # The counter stands still or began anew with the driver: the power says what was drawn.
    if before.power_watts is None or now.power_watts is None:
        return None
    milliwatts = round((before.power_watts + now.power_watts) * 1000 / 2)
    return max(0, milliwatts) * elapsed_ns // NANOS_PER_SECOND


def index_by_card(spans: Iterable[PowerSpan]) -> Mapping[int, Sequence[PowerSpan]]:
    """Index spans by the row id of their card."""
    found: dict[int, list[PowerSpan]] = defaultdict(list)
    for span in spans:
        found[span.device_id].append(span)
    return found
