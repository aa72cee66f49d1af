"""What each running job used since it started, in so few points that all of them stay in memory.

A job has at most `MOST_POINTS` points. When they are full every second one is dropped and the time
between points doubles, so that a run of a month has as many as one of an hour. Lost with the server.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from gpupool.base.units import NANOS_PER_SECOND

#: Points of a job: 3 KB. An even number, so that the last one stays when every second is dropped.
MOST_POINTS = 120
#: Nanoseconds between two points of a young job: agents send a sample every few seconds.
FIRST_STEP_NS = 10 * NANOS_PER_SECOND
#: Numbers of a point.
_WIDTH = 3
#: In place of a number that is not known.
_UNKNOWN = -1


class UsePoint(NamedTuple):
    """An instant of a job: its GPU time since its start, and its memory; None is unknown."""

    at_ns: int
    gpu_milliseconds: int | None
    memory_bytes: int | None


class UseHistory:
    """The points of one job. Not thread-safe."""

    __slots__ = ("_numbers", "_step_ns")

    def __init__(self) -> None:
        self._numbers = array("q")
        self._step_ns = FIRST_STEP_NS

    def add_point(self, point: UsePoint) -> None:
        """Add a point, unless the last one is younger than the time between points."""
        numbers = self._numbers
        if numbers and point.at_ns - numbers[-_WIDTH] < self._step_ns:
            return
        for value in point:
            numbers.append(_UNKNOWN if value is None else value)
        if len(numbers) >= MOST_POINTS * _WIDTH:
            self._thin_out()

    def _thin_out(self) -> None:
        halved = array("q")
        # From the second one on: the latest point stays.
        for first in range(_WIDTH, len(self._numbers), 2 * _WIDTH):
            halved.extend(self._numbers[first : first + _WIDTH])
        self._numbers = halved
        self._step_ns *= 2

    def list_points(self) -> Iterator[UsePoint]:
        """List the points, the oldest first."""
        for first in range(0, len(self._numbers), _WIDTH):
            at_ns, gpu, memory = self._numbers[first : first + _WIDTH]
            yield UsePoint(
                at_ns,
                None if gpu == _UNKNOWN else gpu,
                None if memory == _UNKNOWN else memory,
            )
