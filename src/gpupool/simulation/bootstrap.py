"""How sure a difference of waits is: percentiles of two replays of the same jobs, resampled by blocks of time.

Jobs of one hour wait for the same reason, so single jobs are no independent samples; whole blocks (days, or quarters of
a day) are drawn again with replacement, and the same draw is used for both replays. Pure and seeded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.snapshot import Floats, Ints

DRAWS = 4000
_AT_ONCE = 100
"""Draws worked on together: some 40 MB for 50,000 jobs."""

_Counts = npt.NDArray[np.int32]


class Interval(NamedTuple):
    """Seconds: what is measured, and between what it lies."""

    estimate: float
    low: float
    high: float


def percentile(waits_ns: Ints, part: int) -> int:
    """The nearest-rank percentile of at least one wait."""
    ordered = np.sort(waits_ns)
    return int(ordered[-(-part * len(ordered) // 100) - 1])


class Differences:
    """Differences of percentiles from `before`, over the same draws of blocks for each question.

    `block` says which block each job is in. `level` is how sure an interval is, between 0 and 1.
    """

    def __init__(self, before: Ints, block: Ints, *, level: float, seed: int, draws: int = DRAWS) -> None:
        self._before = before
        _, self._block = np.unique(block, return_inverse=True)
        self.blocks = int(self._block.max()) + 1
        self._tail = (1 - level) / 2
        chance = np.random.default_rng(seed)
        drawn = chance.integers(0, self.blocks, size=(draws, self.blocks))
        self._times = np.zeros((draws, self.blocks), dtype=np.int32)
        for number, line in enumerate(drawn):
            self._times[number] = np.bincount(line, minlength=self.blocks)
        self._known: dict[int, Ints] = {}

    def of(self, after: Ints, part: int) -> Interval:
        """How far the percentile of `after` lies above that of `before`; the waits of the same jobs, in nanoseconds."""
        if part not in self._known:
            self._known[part] = self._drawn(self._before, part)
        apart: Floats = (self._drawn(after, part) - self._known[part]) / 1e9
        low, high = np.quantile(apart, (self._tail, 1 - self._tail))
        measured = (percentile(after, part) - percentile(self._before, part)) / 1e9
        return Interval(measured, float(min(low, measured)), float(max(high, measured)))

    def _drawn(self, waits_ns: Ints, part: int) -> Ints:
        """The percentile in each draw."""
        order = np.argsort(waits_ns, kind="stable")
        block, ordered = self._block[order], waits_ns[order]
        found = np.zeros(len(self._times), dtype=np.int64)
        for first in range(0, len(found), _AT_ONCE):
            upto: _Counts = np.cumsum(self._times[first : first + _AT_ONCE, block], axis=1, dtype=np.int32)
            rank = -(-part * upto[:, -1].astype(np.int64) // 100)
            at = (upto < rank[:, None]).sum(axis=1)
            found[first : first + _AT_ONCE] = ordered[np.minimum(at, len(ordered) - 1)]
        return found
