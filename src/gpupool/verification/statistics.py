"""Rates with error bars, and moments of change, from what programs said of equal stretches of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Final

# Two-sided 95 % quantiles of Student's t by degrees of freedom 1 to 30 (any table of it); beyond it the normal's.
_T95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL95: Final = 1.960


@dataclass(frozen=True)
class Stretch:
    """What one program got between two moments: 1.0 is a whole card."""

    begin_ns: int
    end_ns: int
    rate: float


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its 95 % interval, None from fewer than two values."""

    mean: float
    error: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """Of independent values. Raises ValueError for none.

    >>> estimate([0.2, 0.4])
    Estimate(mean=0.30000000000000004, error=1.2706000000000002, count=2)
    """
    if not values:
        raise ValueError("no values")
    count, mean = len(values), sum(values) / len(values)
    if count < 2:
        return Estimate(mean, None, count)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = _T95[count - 2] if count - 1 <= len(_T95) else _NORMAL95
    return Estimate(mean, quantile * sqrt(variance / count), count)


def mean_rate(series: Sequence[Stretch], begin_ns: int, end_ns: int) -> float | None:
    """The rate between two moments, stretches weighed by how much of them lies between; None where none does."""
    parts = [(min(end_ns, s.end_ns) - max(begin_ns, s.begin_ns), s.rate) for s in series]
    inside = [(length, rate) for length, rate in parts if length > 0]
    total = sum(length for length, _ in inside)
    return sum(length * rate for length, rate in inside) / total if total else None


def windows(series: Sequence[Stretch], begin_ns: int, end_ns: int, width_ns: int) -> list[float]:
    """Rates of the whole windows of that width between two moments, in order."""
    edges = range(begin_ns, end_ns + 1, width_ns)
    rates = (mean_rate(series, low, high) for low, high in pairwise(edges))
    return [rate for rate in rates if rate is not None]


def overlap(series: Sequence[Sequence[Stretch]], skip_ns: int = 0) -> tuple[int, int]:
    """The time in which all of them ran, less `skip_ns` at its beginning. Raises ValueError when there is none."""
    if not all(series):
        raise ValueError("one of them never ran")
    begin, end = max(one[0].begin_ns for one in series) + skip_ns, min(one[-1].end_ns for one in series)
    if begin >= end:
        raise ValueError("they never ran at one time")
    return begin, end


def reached(series: Sequence[Stretch], since_ns: int, before: float, after: float) -> int | None:
    """When a rate that was `before` became `after`: nanoseconds from `since_ns`, None if it did not.

    The split into two levels with the least squared error; as fine as the stretches are. Nothing is smoothed, so
    a change is not seen before it happens.
    """
    later = [one for one in series if one.end_ns > since_ns]
    errors = [((one.rate - before) ** 2, (one.rate - after) ** 2) for one in later]
    cost = best = sum(new for _, new in errors)
    place = 0
    for number, (old, new) in enumerate(errors, 1):
        cost += old - new
        if cost < best:
            best, place = cost, number
    rest = later[place:]
    mean = mean_rate(rest, rest[0].begin_ns, rest[-1].end_ns) if rest else None
    if mean is None or abs(mean - after) > abs(mean - before):
        return None
    return max(0, rest[0].begin_ns - since_ns)
