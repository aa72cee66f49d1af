"""The policy gpu-packing: cards in use before free cards of a used node, those before free nodes.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), with its numbers. Used cards
score 100 less a tenth of their free percent (at least 50). Free cards of a used node score 50 less
their number (at least 33). A free node scores 33 less its cards.
"""

from __future__ import annotations

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import NO_CARD, FreeCapacity
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, order_tightest
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "gpu-packing"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return GpuPackingRater(free)


class GpuPackingRater(StatelessRater):
    """Used cards first, then free cards of used nodes, then free nodes."""

    NODE_WORD = "most packed"
    CARD_WORD = "tightest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        count = fit.shape.count
        milli = fit.shape.held_milli
        if count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        grid = np.sort(self._free.get_compute_grid(nodes), axis=1)
        cards = (grid != NO_CARD).sum(axis=1)
        free = (grid == WHOLE).sum(axis=1)
        places = np.arange(grid.shape[1])
        first = (grid < milli).sum(axis=1)[:, None]
        taken = (places >= first) & (places < first + count)
        fresh = (taken & (grid == WHOLE)).sum(axis=1)
        percent = np.where(taken, grid * 100 // WHOLE, 0).sum(axis=1)
        used = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(100 - percent // 10, 50))
        score: Ints = np.where(free == cards, np.maximum(33 - cards, cards), used)
        return score

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return order_tightest(self._free, fit, node)
