"""Amounts that come and go over time, and the least there is in a window.

A step is a column of five numbers: when, where, how much of each of two amounts, and a mark. Where amounts only come,
the least in a window is what has come by its beginning: a sum. Only places at which something goes as well are looked
at step by step. So a look costs little more than what is held makes it cost, whatever else runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpupool.scheduling.snapshot import Bools, Ints

AT, PLACE, FIRST, SECOND_AMOUNT, MARK = range(5)
COLUMNS = 5
_NONE: Ints = np.empty((COLUMNS, 0), dtype=np.int64)

Counts = Callable[[Ints], Bools]
"""Tells from their marks which steps count."""


class Steps:
    """Two amounts that come and go at numbered places; what comes at an instant is there for what goes at it.

    `coming` are steps at which things only come, sorted by time; they are read where they lie.
    """

    def __init__(self, places: int, coming: Ints = _NONE) -> None:
        self._places = places
        self._goes: Bools = np.zeros(places, dtype=np.bool_)
        """Places at which something goes at some time."""
        self._only_come = [coming]
        """Steps at the other places, each part sorted by time."""
        self._mixed: list[Ints] = []
        self._sorted: Ints | None = None

    def add(self, at_ns: Ints | int, places: Ints, first: Ints, second: Ints, mark: Ints | int = 0) -> None:
        """More steps; those that change nothing are left out."""
        if not len(places):
            return
        steps = np.array(np.broadcast_arrays(at_ns, places, first, second, mark), dtype=np.int64)
        steps = steps[:, (steps[FIRST] != 0) | (steps[SECOND_AMOUNT] != 0)]
        self._mix(steps[PLACE][(steps[FIRST] < 0) | (steps[SECOND_AMOUNT] < 0)])
        self._put(steps[:, np.argsort(steps[AT], kind="stable")])

    def low(self, since_ns: int, until_ns: int, counts: Counts | None = None) -> tuple[Ints, Ints]:
        """Per place the least of each amount, against now, at any instant from `since_ns` to before `until_ns`."""
        low = self._dip(since_ns, until_ns, counts)
        for steps in self._only_come:
            past = min(steps[AT].searchsorted(since_ns, "right"), steps[AT].searchsorted(until_ns))
            if past:
                _add(low, steps[:, :past], counts)
        return low[0], low[1]

    @property
    def goes(self) -> bool:
        """Whether anything goes anywhere at any time."""
        return bool(self._mixed)

    def dip(self, since_ns: int, until_ns: int, counts: Counts | None = None) -> tuple[Ints, Ints]:
        """The same at places at which something goes at some time; 0 at all others."""
        low = self._dip(since_ns, until_ns, counts)
        return low[0], low[1]

    def _dip(self, since_ns: int, until_ns: int, counts: Counts | None) -> Ints:
        low = np.zeros((2, self._places), dtype=np.int64)
        if not self._mixed:
            return low
        steps = self._in_order()
        counted = steps[AT] < until_ns
        if counts is not None:
            counted &= counts(steps[MARK])
        steps = steps[:, counted]
        if not steps.shape[1]:
            return low
        later = steps[AT] > since_ns
        sums = _running_sums(steps)[:, later]
        _add(low, steps[:, ~later], None)
        place = steps[PLACE, later]
        np.minimum.at(low[0], place, sums[0])
        np.minimum.at(low[1], place, sums[1])
        return low

    def _mix(self, places: Ints) -> None:
        """From now on something goes at these places too: what comes there is looked at step by step."""
        if self._goes[places].all():
            return
        self._goes[places] = True
        parts, self._only_come = self._only_come, []
        for steps in parts:
            self._put(steps)

    def _put(self, steps: Ints) -> None:
        mixed = self._goes[steps[PLACE]]
        if mixed.any():
            self._mixed.append(steps[:, mixed])
            self._sorted = None
            steps = steps[:, ~mixed]
        if steps.shape[1]:
            self._only_come.append(steps)

    def _in_order(self) -> Ints:
        """What is mixed, by place and instant; at one instant what comes stands before what goes."""
        if self._sorted is None:
            steps = np.concatenate([_NONE, *self._mixed], axis=1)
            goes = (steps[FIRST] < 0) | (steps[SECOND_AMOUNT] < 0)
            self._sorted = steps[:, np.lexsort((goes, steps[AT], steps[PLACE]))]
            self._mixed = [self._sorted]
        return self._sorted


def _add(low: Ints, steps: Ints, counts: Counts | None) -> None:
    if counts is not None:
        steps = steps[:, counts(steps[MARK])]
    np.add.at(low[0], steps[PLACE], steps[FIRST])
    np.add.at(low[1], steps[PLACE], steps[SECOND_AMOUNT])


def _running_sums(steps: Ints) -> Ints:
    """Sums of both amounts so far, within each run of equal places."""
    place, amounts = steps[PLACE], steps[FIRST : SECOND_AMOUNT + 1]
    sums: Ints = amounts.cumsum(axis=1)
    firsts = np.flatnonzero(place[1:] != place[:-1]) + 1
    if len(firsts):
        lengths = np.diff(firsts, append=len(place))
        sums[:, firsts[0] :] -= np.repeat(sums[:, firsts - 1], lengths, axis=1)
    return sums
