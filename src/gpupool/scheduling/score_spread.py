"""Use what is emptiest, so that neighbours disturb each other least: the opposite of binpack.

Ties go to the lowest index here as well, so that the order is stable.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, fitting_rows
from gpupool.scheduling.score_binpack import NODE_BITS, node_cost
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "spread"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return Spread(free)


class Spread(Unmoved):
    """Most compute left; for whole cards most untouched ones first."""

    NODE, CARD = "emptiest", "emptiest"

    def __init__(self, free: Free) -> None:
        self._free = free

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        return (node_cost(self._free, fit.shape, nodes) << NODE_BITS) - nodes

    def choose(self, fit: Fit, node: int) -> Ints:
        """Most compute left, untouched before used, most memory left, lowest index."""
        free, rows = self._free, fitting_rows(self._free, fit, node)
        return rows[np.lexsort((-free.size[rows], ~free.untouched(rows), -free.milli[rows]))]
