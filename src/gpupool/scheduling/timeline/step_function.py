"""Step functions of two amounts over time, and their least value in a window.

A step is a column of five numbers: when, where, how much of each of two amounts, and a mark. Where
amounts only come, the least in a window is what has come by its start: a sum. Only places at which
something also goes are looked at step by step. So a question costs little more than what is held,
whatever else runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpupool.scheduling.snapshot.columns import Bools, Ints

AT, PLACE, FIRST, SECOND_AMOUNT, MARK = range(5)
COLUMNS = 5
_NONE: Ints = np.empty((COLUMNS, 0), dtype=np.int64)

#: Selects by their marks the steps that count.
StepFilter = Callable[[Ints], Bools]


class StepFunction:
    """Two amounts that come and go at numbered places.

    What comes at an instant is there for what goes at it. `coming` are steps at which amounts only
    come, sorted by time; they are read in place.
    """

    def __init__(self, places: int, coming: Ints = _NONE) -> None:
        self._places = places
        #: Places at which something goes at some time.
        self._goes: Bools = np.zeros(places, dtype=np.bool_)
        #: Steps at the other places, each part sorted by time.
        self._only_come = [coming]
        self._mixed: list[Ints] = []
        self._sorted: Ints | None = None

    def add_steps(
        self, at_ns: Ints | int, places: Ints, first: Ints, second: Ints, mark: Ints | int = 0
    ) -> None:
        """Add steps; those that change nothing are left out."""
        if not len(places):
            return
        steps = np.array(np.broadcast_arrays(at_ns, places, first, second, mark), dtype=np.int64)
        steps = steps[:, (steps[FIRST] != 0) | (steps[SECOND_AMOUNT] != 0)]
        self._mark_mixed(steps[PLACE][(steps[FIRST] < 0) | (steps[SECOND_AMOUNT] < 0)])
        self._store(steps[:, np.argsort(steps[AT], kind="stable")])

    def get_low(
        self, since_ns: int, until_ns: int, counts: StepFilter | None = None
    ) -> tuple[Ints, Ints]:
        """Return per place the least of each amount, against now, from `since_ns` to before
        `until_ns`.
        """
        low = self._compute_dip(since_ns, until_ns, counts)
        for steps in self._only_come:
            # Where amounts only come, the least of the window is at its start.
            past = min(steps[AT].searchsorted(since_ns, "right"), steps[AT].searchsorted(until_ns))
            if past:
                _accumulate(low, steps[:, :past], counts)
        return low[0], low[1]

    @property
    def has_departures(self) -> bool:
        """Whether an amount goes anywhere at any time."""
        return bool(self._mixed)

    def get_dip(
        self, since_ns: int, until_ns: int, counts: StepFilter | None = None
    ) -> tuple[Ints, Ints]:
        """Return the same at places at which an amount goes at some time; 0 at all others."""
        low = self._compute_dip(since_ns, until_ns, counts)
        return low[0], low[1]

    def _compute_dip(self, since_ns: int, until_ns: int, counts: StepFilter | None) -> Ints:
        low = np.zeros((2, self._places), dtype=np.int64)
        if not self._mixed:
            return low
        steps = self._sort_mixed()
        counted = steps[AT] < until_ns
        if counts is not None:
            counted &= counts(steps[MARK])
        steps = steps[:, counted]
        if not steps.shape[1]:
            return low
        later = steps[AT] > since_ns
        sums = _compute_running_sums(steps)[:, later]
        _accumulate(low, steps[:, ~later], None)
        place = steps[PLACE, later]
        np.minimum.at(low[0], place, sums[0])
        np.minimum.at(low[1], place, sums[1])
        return low

    def _mark_mixed(self, places: Ints) -> None:
        """From now on amounts go at these places too: their steps are looked at one by one."""
        if self._goes[places].all():
            return
        self._goes[places] = True
        # Steps of these places must be seen in order now; those of other places stay sums.
        parts, self._only_come = self._only_come, []
        for steps in parts:
            self._store(steps)

    def _store(self, steps: Ints) -> None:
        mixed = self._goes[steps[PLACE]]
        if mixed.any():
            self._mixed.append(steps[:, mixed])
            self._sorted = None
            steps = steps[:, ~mixed]
        if steps.shape[1]:
            self._only_come.append(steps)

    def _sort_mixed(self) -> Ints:
        """The mixed steps by place and instant; at one instant arrivals stand before departures."""
        if self._sorted is None:
            steps = np.concatenate([_NONE, *self._mixed], axis=1)
            # At one instant what comes is there for what goes: a job may start when another one
            # ends.
            goes = (steps[FIRST] < 0) | (steps[SECOND_AMOUNT] < 0)
            self._sorted = steps[:, np.lexsort((goes, steps[AT], steps[PLACE]))]
            self._mixed = [self._sorted]
        return self._sorted


def _accumulate(low: Ints, steps: Ints, counts: StepFilter | None) -> None:
    if counts is not None:
        steps = steps[:, counts(steps[MARK])]
    np.add.at(low[0], steps[PLACE], steps[FIRST])
    np.add.at(low[1], steps[PLACE], steps[SECOND_AMOUNT])


def _compute_running_sums(steps: Ints) -> Ints:
    """Sums of both amounts so far, within each run of equal places."""
    place = steps[PLACE]
    amounts = steps[FIRST : SECOND_AMOUNT + 1]
    sums: Ints = amounts.cumsum(axis=1)
    firsts = np.flatnonzero(place[1:] != place[:-1]) + 1
    if len(firsts):
        lengths = np.diff(firsts, append=len(place))
        sums[:, firsts[0] :] -= np.repeat(sums[:, firsts - 1], lengths, axis=1)
    return sums
