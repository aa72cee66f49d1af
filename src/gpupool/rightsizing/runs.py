"""Holds one run as it was measured, and whether it was at its limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpupool.base.units import WHOLE
from gpupool.rightsizing.histogram import UseHistogram

#: Thousandths of its share from which on a run is at its limit: enforcement holds it within 5 %.
FULL_PER_MILLE = 950
#: Part of an interval that a run waits for its share, from which on it is at its limit if it also
#: uses `_BUSY_PER_MILLE` of it. A run of short bursts waits in each of them and uses little.
_WAIT_PART = 0.1
_BUSY_PER_MILLE = 700


@dataclass(frozen=True, slots=True)
class RequestedShare:
    """What each card of a job was asked for; 0 milli: no compute is promised."""

    gpu_milli: int
    memory_bytes: int
    cards: int = 1
    model: str = ""
    profile: str | None = None


@dataclass(frozen=True)
class MeasuredRun:
    """One job of a family: what it asked for and what was measured of its busiest card."""

    job: str
    start_s: int
    end_s: int
    share: RequestedShare
    use: UseHistogram = field(default_factory=UseHistogram)
    #: Seconds of `use` in which it was at its limit.
    limited_seconds: float = 0.0
    #: The largest share under which it was at its limit; 0: it never was.
    limited_milli: int = 0
    #: The most memory that it used of one card; None: not measured.
    peak_bytes: int | None = None

    @property
    def is_measured(self) -> bool:
        """Whether anything is known of its compute."""
        return self.use.total > 0


def is_at_limit(used_milli: int, held_milli: int, waited_part: float | None) -> bool:
    """Whether a run was at its limit for an interval.

    Args:
        used_milli: of one card.
        held_milli: its share; 0 without a promise.
        waited_part: part of the interval in which it waited because its share was used up; None:
            unknown.

    >>> is_at_limit(290, 300, None), is_at_limit(100, 300, 0.4), is_at_limit(220, 300, 0.4)
    (True, False, True)
    >>> is_at_limit(1000, 1000, None)
    False
    """
    # A whole card is as much as there is: asking for more would not help.
    if not 0 < held_milli < WHOLE:
        return False
    waits = waited_part is not None and waited_part >= _WAIT_PART
    return used_milli * 1000 >= held_milli * (_BUSY_PER_MILLE if waits else FULL_PER_MILLE)
