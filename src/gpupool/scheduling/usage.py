"""What was held before, fading with age: the memory of the fair share.

Use is counted as the books count it (`metering.books`): the larger of a share's part of its card's compute and of its
memory, in millionths of a card, times seconds. After one half-life a second of the past weighs half. No clock here and
no tables: whoever knows of a change says when it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp2, log

from gpupool.base.units import WHOLE
from gpupool.model.quota import Amount

HALF_LIFE_S = 7 * 86400
MICRO = 1_000_000
FORGOTTEN = 40
"""After so many half-lives nothing is left that would change an order."""


def dominant_micro(held: Amount, cards: int, memory_bytes: int) -> int:
    """The larger of the parts that `held` is of the compute of so many cards and of their memory, times the cards.

    >>> dominant_micro(Amount(2000, 10), 4, 100), dominant_micro(Amount(1000, 50), 4, 100)
    (2000000, 2000000)
    """
    by_memory = held.memory_bytes * MICRO * cards // memory_bytes if memory_bytes else 0
    return max(held.gpu_milli * MICRO // WHOLE, by_memory)


def faded(seconds: float, half_life_s: int = HALF_LIFE_S) -> float:
    """What is left of one after so many seconds; a half-life of 0 forgets at once."""
    if half_life_s <= 0:
        return 1.0 if seconds <= 0 else 0.0
    return exp2(-seconds / half_life_s)


def left_of_stretch(age_start_s: float, age_end_s: float, half_life_s: int = HALF_LIFE_S) -> float:
    """Seconds that a stretch of even use, begun and ended so long ago, still counts.

    The integral of the fading over the stretch: (2^(-end/H) - 2^(-start/H)) * H / ln 2.
    """
    if half_life_s <= 0:
        return 0.0
    return (faded(age_end_s, half_life_s) - faded(age_start_s, half_life_s)) * half_life_s / log(2)


@dataclass(frozen=True)
class Meter:
    """One tenant: so much was left at `at_s`, and since then it has held `rate_micro`."""

    value: float
    rate_micro: int
    at_s: float


class Usage:
    """The faded use of every tenant, carried along from one change to the next."""

    def __init__(self, half_life_s: int = HALF_LIFE_S) -> None:
        self.half_life_s = half_life_s
        self._meters: dict[str, Meter] = {}

    def start(self, past: Mapping[str, float], at_s: float) -> None:
        """Begin with what the books say of each tenant up to `at_s`."""
        self._meters = {name: Meter(value, 0, at_s) for name, value in past.items()}

    def hold(self, tenant: str, rate_micro: int, at_s: float) -> None:
        """From `at_s` on the tenant holds so many millionths of a card. Changes may come late: they count from then."""
        meter = self._meters.get(tenant, Meter(0.0, 0, at_s))
        at_s = max(at_s, meter.at_s)
        self._meters[tenant] = Meter(self._value(meter, at_s), rate_micro, at_s)

    def past(self, tenant: str, at_s: float) -> int:
        """What counts of the tenant's use up to `at_s`, in millionths of a card times seconds."""
        meter = self._meters.get(tenant)
        return 0 if meter is None else round(self._value(meter, max(at_s, meter.at_s)))

    def known(self) -> Iterable[str]:
        return self._meters.keys()

    def _value(self, meter: Meter, at_s: float) -> float:
        since = at_s - meter.at_s
        return meter.value * faded(since, self.half_life_s) + meter.rate_micro * left_of_stretch(
            since, 0, self.half_life_s
        )
