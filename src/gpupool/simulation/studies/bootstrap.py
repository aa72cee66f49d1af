"""Compute how sure a difference of waits is, by resampling blocks of time (block bootstrap).

Jobs of one hour wait for the same reason, so single jobs are no independent samples. Whole blocks
(days, or quarters of a day) are drawn again with replacement, and the same draw is used for both
replays, so that their common noise cancels. Pure and seeded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.scheduling.snapshot.columns import Floats, Ints

#: Draws of all blocks: the ends of an interval are quantiles of so many values.
DRAWS = 4000
#: Draws worked on together: some 40 MB for 50,000 jobs.
_AT_ONCE = 100

_Counts = npt.NDArray[np.int32]


class ConfidenceInterval(NamedTuple):
    """A measured difference in seconds, and the interval in which it lies."""

    estimate: float
    low: float
    high: float


def compute_percentile(waits_ns: Ints, part: int) -> int:
    """Return the nearest-rank percentile of at least one wait, in nanoseconds."""
    ordered = np.sort(waits_ns)
    return int(ordered[-(-part * len(ordered) // 100) - 1])


class WaitDifferences:
    """Differences of percentiles from the replay without a change.

    The same draws of blocks serve every question. `block` says which block each job is in; `level`
    is how sure an interval is, between 0 and 1.
    """

    def __init__(
        self, before: Ints, block: Ints, *, level: float, seed: int, draws: int = DRAWS
    ) -> None:
        self._before = before
        _, self._block = np.unique(block, return_inverse=True)
        self.blocks = int(self._block.max()) + 1
        self._tail = (1 - level) / 2
        chance = np.random.default_rng(seed)
        drawn = chance.integers(0, self.blocks, size=(draws, self.blocks))
        # How often each block is in each draw: all that a percentile needs of it.
        self._times = np.zeros((draws, self.blocks), dtype=np.int32)
        for number, line in enumerate(drawn):
            self._times[number] = np.bincount(line, minlength=self.blocks)
        self._known: dict[int, Ints] = {}

    def compute_interval(self, after: Ints, part: int) -> ConfidenceInterval:
        """Compute how far a percentile of `after` lies above that of the replay before.

        `after` are the waits of the same jobs in the same order, in nanoseconds.
        """
        if part not in self._known:
            self._known[part] = self._compute_draws(self._before, part)
        apart: Floats = (self._compute_draws(after, part) - self._known[part]) / 1e9
        low, high = np.quantile(apart, (self._tail, 1 - self._tail))
        # The interval always holds the measured value: with few blocks it may lie outside the
        # quantiles of the draws.
        measured = (compute_percentile(after, part) - compute_percentile(self._before, part)) / 1e9
        return ConfidenceInterval(measured, float(min(low, measured)), float(max(high, measured)))

    def _compute_draws(self, waits_ns: Ints, part: int) -> Ints:
        """Compute the percentile in each draw."""
        # The waits are sorted once. In a draw each counts as often as its block, so a running sum
        # of these counts gives the rank of each wait, and the percentile is found by comparing.
        order = np.argsort(waits_ns, kind="stable")
        block = self._block[order]
        ordered = waits_ns[order]
        found = np.zeros(len(self._times), dtype=np.int64)
        for first in range(0, len(found), _AT_ONCE):
            upto: _Counts = np.cumsum(
                self._times[first : first + _AT_ONCE, block], axis=1, dtype=np.int32
            )
            rank = -(-part * upto[:, -1].astype(np.int64) // 100)
            at = (upto < rank[:, None]).sum(axis=1)
            found[first : first + _AT_ONCE] = ordered[np.minimum(at, len(ordered) - 1)]
        return found
