"""The policy spread: the emptiest node and card, so that neighbours disturb each other least.

It is the opposite of binpack, but ties go to the lowest index here as well.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.binpack import NODE_BITS, compute_node_cost
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, find_fitting_rows
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "spread"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return SpreadRater(free)


class SpreadRater(StatelessRater):
    """Most free compute first; for whole cards most untouched cards first."""

    NODE_WORD = "emptiest"
    CARD_WORD = "emptiest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        return (compute_node_cost(self._free, fit.shape, nodes) << NODE_BITS) - nodes

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return cards with most free compute first, then untouched, then most free memory, then
        index.
        """
        free = self._free
        rows = find_fitting_rows(self._free, fit, node)
        return rows[np.lexsort((-free.size[rows], ~free.is_untouched(rows), -free.milli[rows]))]
