"""Counts how long a run used how much of a card, in so few numbers that every run keeps them.

Autopilot (Rzadca et al., EuroSys 2020) keeps a histogram of use per five minutes and weights it by
age; here it is one per run, because a batch job is a run and not an endless service.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpupool.base.units import WHOLE

#: Milli-devices of a bin: finer than the steps of advice, which are 50.
BIN_MILLI = 20
BINS = WHOLE // BIN_MILLI


class UseHistogram:
    """Seconds by use of one card, from nothing to the whole card. Weights need not be whole."""

    __slots__ = ("highest_milli", "seconds")

    def __init__(self, seconds: Iterable[float] = (), highest_milli: int = 0) -> None:
        self.seconds = list(seconds) or [0.0] * BINS
        if len(self.seconds) != BINS:
            raise ValueError(f"a histogram has {BINS} bins, not {len(self.seconds)}")
        #: The highest use that was counted.
        self.highest_milli = highest_milli

    @property
    def total(self) -> float:
        """Return the seconds that were counted."""
        return sum(self.seconds)

    def add(self, milli: int, seconds: float) -> None:
        """Count a use for so many seconds; more than a card counts as the whole card."""
        if seconds <= 0:
            return
        used = max(0, min(WHOLE, milli))
        self.seconds[find_bin(used)] += seconds
        self.highest_milli = max(self.highest_milli, used)

    def add_histogram(self, other: UseHistogram, weight: float = 1.0) -> None:
        """Add the seconds of another histogram, times a weight."""
        for number, seconds in enumerate(other.seconds):
            self.seconds[number] += seconds * weight
        self.highest_milli = max(self.highest_milli, other.highest_milli)

    def scale(self, factor: float) -> None:
        """Multiply all seconds, as age does."""
        self.seconds = [seconds * factor for seconds in self.seconds]

    def find_percentile(self, percent: float) -> int | None:
        """Return the use that is not exceeded for so many percent of the time; None if empty.

        It is the upper edge of its bin, and so never too low.

        >>> one = UseHistogram()
        >>> one.add(100, 96)
        >>> one.add(790, 4)
        >>> one.find_percentile(95), one.find_percentile(99), UseHistogram().find_percentile(95)
        (100, 790, None)
        """
        total = self.total
        if total <= 0:
            return None
        counted = 0.0
        for number, seconds in enumerate(self.seconds):
            counted += seconds
            # Sums of weights are not exact; a part in a billion is no time.
            if counted >= total * percent / 100 * (1 - 1e-9):
                return min(self.highest_milli, (number + 1) * BIN_MILLI)
        return self.highest_milli

    def count_above(self, milli: int) -> float:
        """Return the seconds in which more than this was used.

        A bin that the limit divides counts as above it, so starved time is never too low.
        """
        if self.highest_milli <= milli:
            return 0.0
        return sum(self.seconds[milli // BIN_MILLI :]) if milli < WHOLE else 0.0

    def to_milliseconds(self) -> list[int]:
        """Return the bins in whole milliseconds, for the books."""
        return [round(seconds * 1000) for seconds in self.seconds]

    @classmethod
    def from_milliseconds(cls, bins: Sequence[int], highest_milli: int) -> UseHistogram:
        """Read what `to_milliseconds` wrote."""
        return cls([number / 1000 for number in bins], highest_milli)


def find_bin(milli: int) -> int:
    """Return the bin of a use: it holds what is above its lower edge, up to its upper edge.

    >>> find_bin(0), find_bin(20), find_bin(21), find_bin(1000)
    (0, 0, 1, 49)
    """
    return max(0, math.ceil(milli / BIN_MILLI) - 1)
