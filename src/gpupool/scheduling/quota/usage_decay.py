"""Past use of each tenant, decayed with age: the memory of the fair share.

Use is counted as `metering.books` counts it: the larger of a share's parts of its card's compute
and memory, in millionths of a card, times seconds. After one half-life a second of past use weighs
half. This module has no clock and no tables: the caller passes the time of each change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp2, log

from gpupool.base.units import WHOLE
from gpupool.model.quota import ResourceAmount

#: Seconds after which past use weighs half: one week, as Slurm's `PriorityDecayHalfLife`.
HALF_LIFE_S = 7 * 86400
#: Millionths in one card.
MICRO_PER_CARD = 1_000_000
#: After so many half-lives no use is left that could change an order (2^-40).
FORGOTTEN_HALF_LIVES = 40


def compute_dominant_micro(held: ResourceAmount, cards: int, memory_bytes: int) -> int:
    """Compute the dominant share of an amount, in millionths of a card.

    The larger of the parts that `held` is of the compute and of the memory of all cards, times the
    number of cards.

    Args:
        held: compute in milli-devices and memory in bytes.
        cards: number of cards.
        memory_bytes: memory of all cards.

    >>> compute_dominant_micro(ResourceAmount(2000, 10), 4, 100)
    2000000
    >>> compute_dominant_micro(ResourceAmount(1000, 50), 4, 100)
    2000000
    """
    # held / (memory of all cards) * cards: cards of unequal memory count by the pool's average, and a
    # tenant with all memory holds as much as one with all cards.
    by_memory = held.memory_bytes * MICRO_PER_CARD * cards // memory_bytes if memory_bytes else 0
    return max(held.gpu_milli * MICRO_PER_CARD // WHOLE, by_memory)


def compute_decay(seconds: float, half_life_s: int = HALF_LIFE_S) -> float:
    """Compute what is left of one unit after so many seconds; a half-life of 0 forgets at once."""
    if half_life_s <= 0:
        return 1.0 if seconds <= 0 else 0.0
    return exp2(-seconds / half_life_s)


def integrate_decay(age_start_s: float, age_end_s: float, half_life_s: int = HALF_LIFE_S) -> float:
    """Compute the seconds that an interval of even use still counts.

    The integral of the decay over the interval: (2^(-end/H) - 2^(-start/H)) * H / ln 2.

    Args:
        age_start_s: age of the interval's start in seconds.
        age_end_s: age of its end in seconds.
        half_life_s: half-life in seconds; 0 counts no past.
    """
    if half_life_s <= 0:
        return 0.0
    return (
        (compute_decay(age_end_s, half_life_s) - compute_decay(age_start_s, half_life_s))
        * half_life_s
        / log(2)
    )


@dataclass(frozen=True)
class TenantUsage:
    """Use of one tenant: `value` was left at `at_s`, and the tenant holds `rate_micro` since then."""

    value: float
    rate_micro: int
    at_s: float


class DecayedUsage:
    """Decayed use of every tenant, carried from one change to the next."""

    def __init__(self, half_life_s: int = HALF_LIFE_S) -> None:
        self.half_life_s = half_life_s
        self._meters: dict[str, TenantUsage] = {}

    def start(self, past: Mapping[str, float], at_s: float) -> None:
        """Set the past use of each tenant, as the ledger has it up to `at_s`."""
        self._meters = {name: TenantUsage(value, 0, at_s) for name, value in past.items()}

    def set_rate(self, tenant: str, rate_micro: int, at_s: float) -> None:
        """Set what a tenant holds from `at_s` on, in millionths of a card.

        A change that arrives late counts from the last known change.
        """
        meter = self._meters.get(tenant, TenantUsage(0.0, 0, at_s))
        at_s = max(at_s, meter.at_s)
        self._meters[tenant] = TenantUsage(self._compute_value(meter, at_s), rate_micro, at_s)

    def get_past_use(self, tenant: str, at_s: float) -> int:
        """Return the decayed use of a tenant up to `at_s`, in millionths of a card times seconds."""
        meter = self._meters.get(tenant)
        return 0 if meter is None else round(self._compute_value(meter, max(at_s, meter.at_s)))

    def drop_least(self, most: int, at_s: float) -> None:
        """Drop the tenants with the least use by `at_s`, so that `most` without a rate are left."""
        if len(self._meters) <= most:
            return
        idle = [name for name, meter in self._meters.items() if not meter.rate_micro]
        idle.sort(key=lambda name: self.get_past_use(name, at_s))
        for name in idle[: max(0, len(idle) - most)]:
            del self._meters[name]

    def list_tenants(self) -> Iterable[str]:
        """Return the names of tenants with known use."""
        return self._meters.keys()

    def _compute_value(self, meter: TenantUsage, at_s: float) -> float:
        since = at_s - meter.at_s
        # Decay is multiplicative, so the past needs no list of intervals: value(t) = value(s) * d(t
        # - s) + rate * integral of d from 0 to t - s.
        return meter.value * compute_decay(
            since, self.half_life_s
        ) + meter.rate_micro * integrate_decay(since, 0, self.half_life_s)
