"""Fill what is already used, so that whole cards and whole nodes stay free for those who need them.

A score only orders what `feasible` let through: it never decides whether something fits. Equals go to the first in the
pool's list, so that people can foretell where their job will be.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, fitting_rows
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "binpack"

NODE_BITS = 24
"""Bits that a node's number takes below the score proper."""

MILLI_BITS = 20
"""Bits for the compute that is free on one node."""


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return Binpack(free)


class Binpack(Unmoved):
    """Least compute left; for whole cards fewest untouched ones first."""

    NODE, CARD = "fullest", "fullest"

    def __init__(self, free: Free) -> None:
        self._free = free

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        return -(node_cost(self._free, fit.shape, nodes) << NODE_BITS) - nodes

    def choose(self, fit: Fit, node: int) -> Ints:
        """Least compute left, used before untouched, least memory left, lowest index."""
        free, rows = self._free, fitting_rows(self._free, fit, node)
        return rows[np.lexsort((free.size[rows], free.untouched(rows), free.milli[rows]))]

    def follows(self, shape: Shape) -> bool:
        """What a share took from makes its node and its card come first all the more."""
        return shape.count == 1 and not shape.whole


def node_cost(free: Free, shape: Shape, nodes: Ints) -> Ints:
    """Per node, the compute left on its open cards; for whole cards the number of untouched ones goes before it."""
    left: Ints = np.maximum(free.grid(nodes), 0).sum(axis=1)
    if not shape.whole:
        return left
    rows, there = free.seats(nodes)
    untouched: Ints = (free.untouched(rows) & there).sum(axis=1)
    return (untouched << MILLI_BITS) + left
