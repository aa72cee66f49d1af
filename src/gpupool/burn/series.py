"""Sums work in equal stretches of time, from the begin and end of batches. Pure.

Times are nanoseconds of one clock. Work is the time that batches take on a card of their own. Busy
is the time in which at least one batch was in flight; on a shared card that contains the
neighbours' time slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WorkStretch:
    """Work of one interval; the launches of a batch count where the batch ended."""

    begin_ns: int
    end_ns: int
    work_ns: float
    busy_ns: int
    launches: int

    @property
    def rate(self) -> float:
        """Work for each unit of time: 1.0 is a whole card."""
        return self.work_ns / (self.end_ns - self.begin_ns)


@dataclass
class _OpenStretch:
    work_ns: float = 0.0
    launches: int = 0
    parts: list[tuple[int, int]] = field(default_factory=list)


class WorkSeries:
    """Collects batches into stretches of `interval_ns` from `start_ns` on. Not thread-safe."""

    def __init__(self, start_ns: int, interval_ns: int) -> None:
        self._start = start_ns
        self._interval = interval_ns
        self._open: dict[int, _OpenStretch] = defaultdict(_OpenStretch)
        self._next = 0

    def add_batch(self, begin_ns: int, end_ns: int, work_ns: int, launches: int) -> None:
        """Add a batch; its work is spread evenly over the time that it took."""
        # The card's clock may run slightly before the start, and a batch takes 1 ns at least, so
        # that the division below is safe.
        begin = max(begin_ns, self._start)
        end = max(end_ns, begin_ns + 1, self._start + 1)
        for number in range(
            (begin - self._start) // self._interval, (end - 1 - self._start) // self._interval + 1
        ):
            low = self._start + number * self._interval
            part = max(begin, low), min(end, low + self._interval)
            stretch = self._open[max(number, self._next)]
            stretch.work_ns += work_ns * (part[1] - part[0]) / (end - begin)
            stretch.parts.append(part)
        self._open[max((end - 1 - self._start) // self._interval, self._next)].launches += launches

    def pop_finished(self, until_ns: int) -> Iterator[WorkStretch]:
        """Yield once each stretch that ends before `until_ns`.

        The caller promises that it adds no batch which ended before `until_ns` any more.
        """
        while self._start + (self._next + 1) * self._interval <= until_ns:
            low = self._start + self._next * self._interval
            one = self._open.pop(self._next, _OpenStretch())
            self._next += 1
            yield WorkStretch(
                low, low + self._interval, one.work_ns, measure_union(one.parts), one.launches
            )

    def pop_rest(self, until_ns: int) -> Iterator[WorkStretch]:
        """Yield all that is left: whole stretches, then a shorter last one if work is in it."""
        yield from self.pop_finished(until_ns)
        low = self._start + self._next * self._interval
        left = _OpenStretch()
        for one in self._open.values():
            left.work_ns += one.work_ns
            left.launches += one.launches
            left.parts += one.parts
        self._open.clear()
        if left.parts or left.launches:
            # A batch may end after `until_ns`: the stretch is as long as its work, so that its rate
            # never exceeds one card.
            end = max([until_ns, low + 1, *(end for _, end in left.parts)])
            yield WorkStretch(low, end, left.work_ns, measure_union(left.parts), left.launches)


def measure_union(parts: Iterable[tuple[int, int]]) -> int:
    """Return the time that at least one part covers.

    >>> measure_union([(0, 10), (5, 12), (20, 21)])
    13
    """
    covered = 0
    reached = None
    for begin, end in sorted(parts):
        if reached is None or begin > reached:
            covered, reached = covered + end - begin, end
        elif end > reached:
            covered, reached = covered + end - reached, end
    return covered
