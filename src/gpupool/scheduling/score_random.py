"""Any feasible node, any card that fits: the baseline that every other rule must beat.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). Chance comes from the seed: the same calls in
the same order give the same answers.
"""

from __future__ import annotations

from random import Random

import numpy as np

from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, fitting_rows
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "random"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return Drawn(free, seed)


class Drawn(Unmoved):
    SCALED = True
    NODE, CARD = "drawn", "drawn"

    def __init__(self, free: Free, seed: int) -> None:
        self._free, self._seed = free, seed
        self._chance = Random(seed)

    def restart(self, generation: int) -> None:
        """What was drawn for plans before does not count: this one draws by its own snapshot."""
        self._chance = Random(f"{self._seed} {generation}")

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        return np.zeros(len(nodes), dtype=np.int64)

    def settle(self, scores: Ints) -> Ints:
        """One of the nodes, drawn anew at every look."""
        drawn = np.zeros(len(scores), dtype=np.int64)
        drawn[self._chance.randrange(len(scores))] = 1
        return drawn

    def choose(self, fit: Fit, node: int) -> Ints:
        """Shares in any order; whole cards by index, because they are all alike."""
        rows = fitting_rows(self._free, fit, node)
        if fit.shape.whole:
            return rows
        return np.array(self._chance.sample(rows.tolist(), len(rows)), dtype=np.int64)
