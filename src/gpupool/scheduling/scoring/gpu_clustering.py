"""The policy gpu-clustering: equal kinds of claims share nodes.

Kinds are shares, single cards, pairs and so on. A baseline of "Beware of Fragmentation" (Weng et
al., USENIX ATC 2023), with its numbers: trunc(25 (8 - free cards) / 8), plus 75 where only this
kind runs, 50 where others run too, 25 where none runs, 0 where only others run. Claims that ran
before the policy started have no kind.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.dot_product import CARD_UNIT
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, order_tightest
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "gpu-clustering"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return GpuClusteringRater(free)


class GpuClusteringRater(StatelessRater):
    """Nodes with claims of the same kind first."""

    NODE_WORD = "most alike"
    CARD_WORD = "tightest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free
        #: Claims by node and kind: how many cards, 0 for a share.
        self._held = np.zeros((len(free.cards.nodes), 1), dtype=np.int64)

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        if fit.shape.count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        kind = self._find_kind(fit.shape)
        held = self._held[nodes] > 0
        kinds = held.sum(axis=1)
        mine = held[:, kind]
        company = np.where(mine, np.where(kinds == 1, 75, 50), np.where(kinds == 0, 25, 0))
        left = np.maximum(self._free.get_compute_grid(nodes), 0).sum(axis=1)
        used: Ints = np.trunc(25 * (CARD_UNIT - left) / CARD_UNIT).astype(np.int64)
        return used + company

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return order_tightest(self._free, fit, node)

    def on_take(self, shape: Shape, node: int) -> None:
        self._count_claims(shape, node, 1)

    def on_release(self, shape: Shape, node: int) -> None:
        self._count_claims(shape, node, -1)

    def _count_claims(self, shape: Shape, node: int, more: int) -> None:
        if shape.count:
            kind = self._find_kind(shape)
            self._held[node, kind] += more

    def _find_kind(self, shape: Shape) -> int:
        kind = shape.count if shape.is_whole else 0
        if kind >= self._held.shape[1]:
            self._held = np.pad(self._held, ((0, 0), (0, kind + 1 - self._held.shape[1])))
        return kind
