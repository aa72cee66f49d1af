"""Amounts that come and go over time, and the least there is in a window: cumulative sums over sorted columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpupool.scheduling.snapshot import Bools, Ints

_EMPTY: Ints = np.empty(0, dtype=np.int64)


class Steps:
    """Two amounts that come and go at numbered places; what comes at an instant is there for what goes at it."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._added: list[tuple[Ints, ...]] = []
        self._sorted: tuple[Ints, ...] | None = None

    def add(self, at_ns: Ints | int, places: Ints, first: Ints, second: Ints, mark: Ints | int = 0) -> None:
        columns = np.broadcast_arrays(
            np.asarray(at_ns, dtype=np.int64), places, first, second, np.asarray(mark, dtype=np.int64)
        )
        if len(places):
            self._added.append(tuple(columns))
            self._sorted = None

    def low(self, since_ns: int, until_ns: int, counts: Callable[[Ints], Bools] | None = None) -> tuple[Ints, Ints]:
        """Per place the least of each amount, against now, at any instant from `since_ns` to before `until_ns`.

        `counts` tells from their marks which steps count.
        """
        low = np.zeros(self._places, dtype=np.int64), np.zeros(self._places, dtype=np.int64)
        at, place, first, second, mark = self._in_order()
        counted = at < until_ns
        if counts is not None:
            counted &= counts(mark)
        at, place = at[counted], place[counted]
        later = at > since_ns
        for column, amounts in zip(low, (first[counted], second[counted]), strict=True):
            sums = _running_sums(place, amounts)
            np.add.at(column, place[~later], amounts[~later])
            np.minimum.at(column, place[later], sums[later])
        return low

    def _in_order(self) -> tuple[Ints, ...]:
        """By place and instant; at one instant what comes stands before what goes."""
        if self._sorted is None:
            columns = [np.concatenate(parts) for parts in zip(*self._added, strict=True)]
            at, place, first, second, _ = columns or [_EMPTY] * 5
            order = np.lexsort(((first < 0) | (second < 0), at, place))
            self._sorted = tuple(column[order] for column in columns) or (_EMPTY,) * 5
        return self._sorted


def _running_sums(place: Ints, amounts: Ints) -> Ints:
    """Sums so far within each run of equal places."""
    if not len(place):
        return amounts
    sums = np.cumsum(amounts)
    firsts = np.flatnonzero(np.diff(place, prepend=place[0] - 1))
    before = sums[firsts] - amounts[firsts]
    own: Ints = sums - np.repeat(before, np.diff(firsts, append=len(place)))
    return own
