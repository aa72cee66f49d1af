"""The node that is left with least: processors and compute weigh the same.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), in its numbers: 100 (1 - (cpu left + compute
left) / 2), truncated, with processors counted in 128 cores and compute in 8 cards, then scaled over the feasible nodes
to 0..100.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, tightest
from gpupool.scheduling.score_dot_product import CARD_UNIT, CPU_UNIT, MOST_CPU
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "best-fit"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return BestFit(free)


class BestFit(Unmoved):
    SCALED = True
    NODE, CARD = "best fitting", "tightest"

    def __init__(self, free: Free) -> None:
        self._free = free

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        shape = fit.shape
        cpu = np.minimum(self._free.cpu_milli[nodes], MOST_CPU) - shape.cpu_milli
        compute = np.maximum(self._free.grid(nodes), 0).sum(axis=1) - shape.held_milli * shape.count
        left = cpu + CPU_UNIT // CARD_UNIT * compute
        score: Ints = 100 + -(100 * left) // (2 * CPU_UNIT)
        return score

    def settle(self, scores: Ints) -> Ints:
        least, most = int(scores.min()), int(scores.max())
        if most == least:
            return scores
        return (scores - least) * 100 // (most - least)

    def choose(self, fit: Fit, node: int) -> Ints:
        return tightest(self._free, fit, node)
