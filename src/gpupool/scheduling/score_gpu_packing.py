"""Cards in use before free cards of a used node, those before free nodes.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), in its numbers: on used cards 100 less a tenth
of their free percent (at least 50), with free cards 50 less their number (at least 33), on a free node 33 less its
cards.
"""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import NO_CARD, Free
from gpupool.scheduling.policy import Rater, Unmoved, tightest
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "gpu-packing"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return GpuPacking(free)


class GpuPacking(Unmoved):
    NODE, CARD = "most packed", "tightest"

    def __init__(self, free: Free) -> None:
        self._free = free

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        count, milli = fit.shape.count, fit.shape.held_milli
        if count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        grid = np.sort(self._free.grid(nodes), axis=1)
        cards, free = (grid != NO_CARD).sum(axis=1), (grid == WHOLE).sum(axis=1)
        places = np.arange(grid.shape[1])
        first = (grid < milli).sum(axis=1)[:, None]
        taken = (places >= first) & (places < first + count)
        fresh = (taken & (grid == WHOLE)).sum(axis=1)
        percent = np.where(taken, grid * 100 // WHOLE, 0).sum(axis=1)
        used = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(100 - percent // 10, 50))
        score: Ints = np.where(free == cards, np.maximum(33 - cards, cards), used)
        return score

    def choose(self, fit: Fit, node: int) -> Ints:
        return tightest(self._free, fit, node)
