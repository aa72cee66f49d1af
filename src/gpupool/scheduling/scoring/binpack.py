"""The policy binpack: fill used cards and nodes, so that whole cards and whole nodes stay free.

Ties go to the first node in the list of the pool, so that placements are predictable for people.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, find_fitting_rows
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "binpack"

#: Bits that a node's number takes below the score proper.
NODE_BITS = 24

#: Bits for the compute that is free on one node.
MILLI_BITS = 20


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return BinpackRater(free)


class BinpackRater(StatelessRater):
    """Least free compute first; for whole cards fewest untouched cards first."""

    NODE_WORD = "fullest"
    CARD_WORD = "fullest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        return -(compute_node_cost(self._free, fit.shape, nodes) << NODE_BITS) - nodes

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return cards by least free compute, then used before untouched, least memory, index."""
        free = self._free
        rows = find_fitting_rows(self._free, fit, node)
        return rows[np.lexsort((free.size[rows], free.is_untouched(rows), free.milli[rows]))]

    def can_reuse_card(self, shape: Shape) -> bool:
        """Return True for a share: the card that it took now has even less free compute."""
        return shape.count == 1 and not shape.is_whole


def compute_node_cost(free: FreeCapacity, shape: Shape, nodes: Ints) -> Ints:
    """Return the free compute per node; for whole cards, untouched cards count first."""
    left: Ints = np.maximum(free.get_compute_grid(nodes), 0).sum(axis=1)
    if not shape.is_whole:
        return left
    rows, there = free.get_row_table(nodes)
    untouched: Ints = (free.is_untouched(rows) & there).sum(axis=1)
    return (untouched << MILLI_BITS) + left
