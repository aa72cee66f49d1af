"""The policy best-fit: the node that is left with least, processors and compute weighted alike.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), with its numbers. The score
is 100 (1 - (cpu left + compute left) / 2), truncated, in units of 128 cores and 8 cards, then
scaled over the feasible nodes to 0..100.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.dot_product import CARD_UNIT, CPU_UNIT, MOST_CPU
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, order_tightest
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "best-fit"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return BestFitRater(free)


class BestFitRater(StatelessRater):
    """The node with the smallest rest wins."""

    NEEDS_NORMALIZATION = True
    NODE_WORD = "best fitting"
    CARD_WORD = "tightest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        shape = fit.shape
        cpu = np.minimum(self._free.cpu_milli[nodes], MOST_CPU) - shape.cpu_milli
        compute = (
            np.maximum(self._free.get_compute_grid(nodes), 0).sum(axis=1)
            - shape.held_milli * shape.count
        )
        left = cpu + CPU_UNIT // CARD_UNIT * compute
        score: Ints = 100 + -(100 * left) // (2 * CPU_UNIT)
        return score

    def normalize_scores(self, scores: Ints) -> Ints:
        least = int(scores.min())
        most = int(scores.max())
        if most == least:
            return scores
        return (scores - least) * 100 // (most - least)

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return order_tightest(self._free, fit, node)
