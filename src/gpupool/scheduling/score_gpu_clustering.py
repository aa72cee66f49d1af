"""Claims of one kind together: shares, single cards, pairs and so on each on nodes of their own where they can.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), in its numbers: trunc(25 (8 - cards free) / 8),
and 75 more where only this kind is, 50 where others are too, 25 where none is, nothing where only others are. What lay
on a node before the start has no kind.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, tightest
from gpupool.scheduling.score_dot_product import CARD_UNIT
from gpupool.scheduling.snapshot import Expected, Ints

NAME = "gpu-clustering"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    return GpuClustering(free)


class GpuClustering(Unmoved):
    NODE, CARD = "most alike", "tightest"

    def __init__(self, free: Free) -> None:
        self._free = free
        self._held = np.zeros((len(free.cards.nodes), 1), dtype=np.int64)
        """Claims by node and kind: how many cards, 0 for a share."""

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        if fit.shape.count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        kind, held = self._kind(fit.shape), self._held[nodes] > 0
        kinds, mine = held.sum(axis=1), held[:, kind]
        company = np.where(mine, np.where(kinds == 1, 75, 50), np.where(kinds == 0, 25, 0))
        left = np.maximum(self._free.grid(nodes), 0).sum(axis=1)
        used: Ints = np.trunc(25 * (CARD_UNIT - left) / CARD_UNIT).astype(np.int64)
        return used + company

    def choose(self, fit: Fit, node: int) -> Ints:
        return tightest(self._free, fit, node)

    def took(self, shape: Shape, node: int) -> None:
        self._count(shape, node, 1)

    def gave(self, shape: Shape, node: int) -> None:
        self._count(shape, node, -1)

    def _count(self, shape: Shape, node: int, more: int) -> None:
        if shape.count:
            kind = self._kind(shape)
            self._held[node, kind] += more

    def _kind(self, shape: Shape) -> int:
        kind = shape.count if shape.whole else 0
        if kind >= self._held.shape[1]:
            self._held = np.pad(self._held, ((0, 0), (0, kind + 1 - self._held.shape[1])))
        return kind
