"""The node whose free amounts are least alike to what is asked: a small product of free and asked wins.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), in its numbers: a score of
100 (1 - (cpu free x asked + compute free x asked) / 2), truncated, with processors counted in 128 cores and compute in
8 cards.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, tightest
from gpupool.scheduling.snapshot import Expected, Ints

CPU_UNIT, CARD_UNIT = 128_000, 8_000
"""Milli-cores and milli-devices that count as one."""

MOST_CPU = 1 << 24
"""More processors than this count as this: where nothing is known of them there is no end of them."""

NAME = "dot-product"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return DotProduct(free)


class DotProduct(Unmoved):
    NODE, CARD = "least matching", "tightest"

    def __init__(self, free: Free) -> None:
        self._free = free

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        shape = fit.shape
        cpu = np.minimum(self._free.cpu_milli[nodes], MOST_CPU) * shape.cpu_milli
        compute = np.maximum(self._free.grid(nodes), 0).sum(axis=1) * (shape.held_milli * shape.count)
        product = cpu + (CPU_UNIT // CARD_UNIT) ** 2 * compute
        score: Ints = 100 + -(100 * product) // (2 * CPU_UNIT**2)
        return score

    def choose(self, fit: Fit, node: int) -> Ints:
        return tightest(self._free, fit, node)
