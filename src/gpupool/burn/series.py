"""What was done when: work in equal stretches of time, from the begin and end of batches. Pure.

Times are nanoseconds of one clock. Work is what the batches would take on a card of their own; busy is
the time in which at least one of them was on its way, which on a shared card contains the neighbours' slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stretch:
    """One interval's share of the work; whole numbers of launches are counted where their batch ended."""

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
class _Open:
    work_ns: float = 0.0
    launches: int = 0
    parts: list[tuple[int, int]] = field(default_factory=list)


class Series:
    """Stretches of `interval_ns` from `start_ns` on. Not thread-safe."""

    def __init__(self, start_ns: int, interval_ns: int) -> None:
        self._start, self._interval = start_ns, interval_ns
        self._open: dict[int, _Open] = defaultdict(_Open)
        self._next = 0

    def add(self, begin_ns: int, end_ns: int, work_ns: int, launches: int) -> None:
        """A batch, its work spread evenly over the time it took."""
        begin, end = max(begin_ns, self._start), max(end_ns, begin_ns + 1, self._start + 1)
        for number in range((begin - self._start) // self._interval, (end - 1 - self._start) // self._interval + 1):
            low = self._start + number * self._interval
            part = max(begin, low), min(end, low + self._interval)
            stretch = self._open[max(number, self._next)]
            stretch.work_ns += work_ns * (part[1] - part[0]) / (end - begin)
            stretch.parts.append(part)
        self._open[max((end - 1 - self._start) // self._interval, self._next)].launches += launches

    def finished(self, until_ns: int) -> Iterator[Stretch]:
        """Stretches that end before `until_ns`, after which no batch that ended earlier is added; each once."""
        while self._start + (self._next + 1) * self._interval <= until_ns:
            low = self._start + self._next * self._interval
            one = self._open.pop(self._next, _Open())
            self._next += 1
            yield Stretch(low, low + self._interval, one.work_ns, union(one.parts), one.launches)

    def rest(self, until_ns: int) -> Iterator[Stretch]:
        """Everything that is left, at the end: whole stretches, and a shorter last one where work is in it."""
        yield from self.finished(until_ns)
        low = self._start + self._next * self._interval
        parts = [part for one in self._open.values() for part in one.parts]
        if parts or any(one.launches for one in self._open.values()):
            work, launches = (
                sum(getattr(one, name) for one in self._open.values()) for name in ("work_ns", "launches")
            )
            end = max([until_ns, low + 1, *(end for _, end in parts)])
            self._open.clear()
            yield Stretch(low, end, work, union(parts), launches)


def union(parts: Iterable[tuple[int, int]]) -> int:
    """Time covered by at least one part.

    >>> union([(0, 10), (5, 12), (20, 21)])
    13
    """
    covered, reached = 0, None
    for begin, end in sorted(parts):
        if reached is None or begin > reached:
            covered, reached = covered + end - begin, end
        elif end > reached:
            covered, reached = covered + end - reached, end
    return covered
