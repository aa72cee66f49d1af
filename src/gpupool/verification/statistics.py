"""Compute rates with error bars, and moments of change, from rates over stretches of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final

# Two-sided 95 % quantiles of Student's t by degrees of freedom 1 to 30 (any table of it); beyond it
# the normal's.
_T95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL95: Final = 1.960


@dataclass(frozen=True)
class RateStretch:
    """The rate of one program between two instants; 1.0 is a whole card."""

    begin_ns: int
    end_ns: int
    rate: float


@dataclass(frozen=True)
class RateEstimate:
    """A mean and half the width of its 95 % interval, None from fewer than two values."""

    mean: float
    error: float | None
    count: int


def estimate_mean(values: Sequence[float]) -> RateEstimate:
    """Estimate the mean of independent values. Raises ValueError for none.

    The 95 % interval is mean ± t * s / sqrt(n) with Student's t of n - 1 degrees of freedom.

    >>> estimate_mean([0.2, 0.4])
    RateEstimate(mean=0.30000000000000004, error=1.2706, count=2)
    """
    if not values:
        raise ValueError("no values")
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return RateEstimate(mean, None, count)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = _T95[count - 2] if count - 1 <= len(_T95) else _NORMAL95
    return RateEstimate(mean, quantile * sqrt(variance / count), count)


def compute_mean_rate(series: Sequence[RateStretch], begin_ns: int, end_ns: int) -> float | None:
    """Compute the rate between two instants; None if no stretch lies between them.

    Each stretch counts with the length that lies between the instants.
    """
    total_ns = 0
    weighted = 0.0
    for stretch in series:
        length_ns = min(end_ns, stretch.end_ns) - max(begin_ns, stretch.begin_ns)
        if length_ns > 0:
            total_ns += length_ns
            weighted += length_ns * stretch.rate
    return weighted / total_ns if total_ns else None


def list_window_rates(
    series: Sequence[RateStretch], begin_ns: int, end_ns: int, width_ns: int
) -> list[float]:
    """List the rates of the whole windows of that width between two instants, in order.

    Neighbouring stretches are not independent (a kernel runs across their border); windows of a
    second are nearly so, which `estimate_mean` needs.
    """
    rates: list[float] = []
    for low, high in pairwise(range(begin_ns, end_ns + 1, width_ns)):
        rate = compute_mean_rate(series, low, high)
        if rate is not None:
            rates.append(rate)
    return rates


def compute_overlap(series: Sequence[Sequence[RateStretch]], skip_ns: int = 0) -> tuple[int, int]:
    """Compute the time in which all series ran, without its first `skip_ns`.

    Raises:
        ValueError: if there is no such time.
    """
    if not all(series):
        raise ValueError("one of them never ran")
    begin = max(one[0].begin_ns for one in series) + skip_ns
    end = min(one[-1].end_ns for one in series)
    if begin >= end:
        raise ValueError("they never ran at one time")
    return begin, end


def find_change(
    series: Sequence[RateStretch], since_ns: int, before: float, after: float
) -> int | None:
    """Find when a rate that was `before` became `after`: nanoseconds from `since_ns`, or None.

    It is the split into two levels with the least squared error, as fine as the stretches are.
    Nothing is smoothed, so a change is not seen before it happens.
    """
    later = [one for one in series if one.end_ns > since_ns]
    # At first all stretches count as after the change. Moving the split behind one more stretch
    # exchanges that stretch's error, so one pass finds the best split.
    cost = sum((one.rate - after) ** 2 for one in later)
    best = cost
    place = 0
    for number, one in enumerate(later, 1):
        cost += (one.rate - before) ** 2 - (one.rate - after) ** 2
        if cost < best:
            best = cost
            place = number
    rest = later[place:]
    mean = compute_mean_rate(rest, rest[0].begin_ns, rest[-1].end_ns) if rest else None
    if mean is None or abs(mean - after) > abs(mean - before):
        return None
    return max(0, rest[0].begin_ns - since_ns)
