"""Collects what a job used between samples until it is written. Lost with the server.

An interval is at least ten seconds long. It is known by its end: the row of the job says up to
which end it has counted, so that intervals which are written twice count once. Not thread-safe.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from gpupool.base.units import NANOS_PER_MILLISECOND, NANOS_PER_SECOND, WHOLE
from gpupool.wire.samples import CardUse, JobSample

#: Shorter intervals say more of kernels than of a job.
SHORTEST_NS = 10 * NANOS_PER_SECOND
#: What happened in a longer pause of the samples is unknown.
LONGEST_NS = 300 * NANOS_PER_SECOND
#: Intervals that wait to be written: an hour of them. The oldest give way if writes fail longer.
MOST_INTERVALS = 360
_UNKNOWN = -1


class UseInterval(NamedTuple):
    """What a job used of its busiest card in an interval; None is unknown.

    With `whole_job`, `milli` is the sum over all cards of the job: without a fence there is no
    figure for each.
    """

    until_ns: int
    milliseconds: int
    milli: int | None
    #: Thousandths of the interval in which it waited because its share was used up.
    waited_milli: int | None
    peak_bytes: int | None
    whole_job: bool


_WIDTH = len(UseInterval._fields)


class PendingUse:
    """The intervals of one job, in 3 KB at most for five minutes."""

    __slots__ = ("_base", "_base_ns", "_numbers", "_peak")

    def __init__(self) -> None:
        self._base: JobSample | None = None
        self._base_ns = 0
        self._peak = _UNKNOWN
        self._numbers = array("q")

    def add_sample(self, sample: JobSample, at_ns: int) -> None:
        """Take in a sample, which ends an interval unless the last end is too near."""
        self._peak = max(self._peak, _find_peak(sample))
        base = self._base
        length_ns = at_ns - self._base_ns
        if base is not None and 0 <= length_ns < SHORTEST_NS:
            return
        if base is not None and SHORTEST_NS <= length_ns <= LONGEST_NS:
            self._add_interval(base, sample, at_ns, length_ns)
        self._base = sample
        self._base_ns = at_ns

    def _add_interval(self, old: JobSample, new: JobSample, at_ns: int, length_ns: int) -> None:
        whole_job = new.cards is None or old.cards is None
        if whole_job:
            milli = _compute_part(new.gpu_milliseconds, old.gpu_milliseconds, length_ns, WHOLE)
            waited = _UNKNOWN
        else:
            milli = _find_busiest(old, new, "gpu_nanoseconds", length_ns)
            waited = _find_busiest(old, new, "throttled_nanoseconds", length_ns)
        milliseconds = length_ns // NANOS_PER_MILLISECOND
        numbers = self._numbers
        numbers.extend((at_ns, milliseconds, milli, waited, self._peak, int(whole_job)))
        self._peak = _UNKNOWN
        if len(numbers) > MOST_INTERVALS * _WIDTH:
            del numbers[:_WIDTH]

    def list_intervals(self) -> list[UseInterval]:
        """List what is not written yet, the oldest first."""
        found = list[UseInterval]()
        for first in range(0, len(self._numbers), _WIDTH):
            at_ns, length, milli, waited, peak, whole_job = self._numbers[first : first + _WIDTH]
            found.append(
                UseInterval(
                    at_ns,
                    length,
                    _read_known(milli),
                    _read_known(waited),
                    _read_known(peak),
                    bool(whole_job),
                )
            )
        return found

    def drop_until(self, until_ns: int) -> None:
        """Drop what was written: the intervals that ended by then."""
        numbers = self._numbers
        written = 0
        while written < len(numbers) and numbers[written] <= until_ns:
            written += _WIDTH
        del numbers[:written]


def _read_known(number: int) -> int | None:
    return None if number == _UNKNOWN else number


def _find_peak(sample: JobSample) -> int:
    """Find the most memory of one card that counts against a limit."""
    if sample.cards is None:
        return _UNKNOWN if sample.gpu_memory_bytes is None else sample.gpu_memory_bytes
    return max((max(card.reserved_bytes, card.used_bytes) for card in sample.cards), default=0)


def _find_busiest(old: JobSample, new: JobSample, name: str, length_ns: int) -> int:
    """Find the greatest part of the interval by which a sum of one card grew."""
    before = {card.uuid: card for card in old.cards or ()}
    found = _UNKNOWN
    for card in new.cards or ():
        was = before.get(card.uuid, CardUse(uuid=card.uuid))
        grown = getattr(card, name) - getattr(was, name)
        # A sum that went back belongs to a program that started again.
        if grown >= 0:
            found = max(found, min(WHOLE, grown * WHOLE // length_ns))
    return found


def _compute_part(new: int | None, old: int | None, length_ns: int, scale: int) -> int:
    if new is None or old is None or new < old:
        return _UNKNOWN
    return (new - old) * NANOS_PER_MILLISECOND * scale // length_ns
