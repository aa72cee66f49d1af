"""The policy dot-product: the node whose free amounts are least similar to the request.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023), with its numbers. The score
is 100 (1 - (free cpu x asked cpu + free compute x asked compute) / 2), truncated, in units of 128
cores and 8 cards.
"""

from __future__ import annotations

import numpy as np

from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, order_tightest
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

CPU_UNIT = 128_000
#: Milli-cores and milli-devices that count as one.
CARD_UNIT = 8_000

#: More processors than this count as this: where nothing is known of them there is no end of them.
MOST_CPU = 1 << 24

NAME = "dot-product"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return DotProductRater(free)


class DotProductRater(StatelessRater):
    """The smallest product of free and asked amounts wins."""

    NODE_WORD = "least matching"
    CARD_WORD = "tightest"

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        shape = fit.shape
        cpu = np.minimum(self._free.cpu_milli[nodes], MOST_CPU) * shape.cpu_milli
        compute = np.maximum(self._free.get_compute_grid(nodes), 0).sum(axis=1) * (
            shape.held_milli * shape.count
        )
        product = cpu + (CPU_UNIT // CARD_UNIT) ** 2 * compute
        score: Ints = 100 + -(100 * product) // (2 * CPU_UNIT**2)
        return score

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return order_tightest(self._free, fit, node)
