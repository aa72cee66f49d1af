"""Sums a driver's samples of each process's use of a card into nanoseconds. Imports no driver.

NVML reports, for each process, the part of the time in which a kernel of it ran, in whole percents,
sampled each 1/6 to 1 s. The sum is exact to some percent at best; its error with time slicing was
not measured on hardware.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

#: Microseconds that one sample stands for at most: the longest time over which drivers average.
LONGEST_SAMPLE_US: Final = 1_000_000


@dataclass(frozen=True)
class UseSample:
    """A driver's sample: a process used `percent` of the card's time up to `at_us` of its clock."""

    pid: int
    at_us: int
    percent: int


@dataclass
class SampledTimes:
    """GPU time of each process of one card since this object first heard of it."""

    last_us: int = 0
    _sums_ns: dict[int, int] = field(default_factory=dict)
    _heard_us: dict[int, int] = field(default_factory=dict)

    def add_samples(
        self, samples: Iterable[UseSample], alive: Collection[int]
    ) -> Mapping[int, int]:
        """Add new samples and return the nanoseconds of each process that is `alive` on the card.

        Other processes are forgotten.
        """
        for sample in sorted(samples, key=lambda each: each.at_us):
            before = self._heard_us.get(sample.pid, self.last_us)
            lasted = min(max(sample.at_us - before, 0), LONGEST_SAMPLE_US)
            self._sums_ns[sample.pid] = (
                self._sums_ns.get(sample.pid, 0) + lasted * 1000 * sample.percent // 100
            )
            self._heard_us[sample.pid] = sample.at_us
        self.last_us = max([self.last_us, *self._heard_us.values()])
        # A process without a sample has 0, so that its absence never looks like a missing figure.
        self._sums_ns = {pid: self._sums_ns.get(pid, 0) for pid in alive}
        self._heard_us = {pid: at for pid, at in self._heard_us.items() if pid in self._sums_ns}
        return dict(self._sums_ns)
