"""The policy random: any feasible node and any card that fits, the baseline for every other policy.

A baseline of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). Randomness comes from the
seed: equal calls in equal order give equal answers.
"""

from __future__ import annotations

from random import Random

import numpy as np

from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, find_fitting_rows
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

NAME = "random"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool."""
    return RandomRater(free, seed)


class RandomRater(StatelessRater):
    """A random node and a random card."""

    NEEDS_NORMALIZATION = True
    NODE_WORD = "drawn"
    CARD_WORD = "drawn"

    def __init__(self, free: FreeCapacity, seed: int) -> None:
        self._free = free
        self._seed = seed
        self._chance = Random(seed)

    def begin_plan(self, generation: int) -> None:
        """Seed the generator with the generation of the snapshot, so that earlier plans have no
        effect.
        """
        self._chance = Random(f"{self._seed} {generation}")

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, scores: Ints) -> Ints:
        """Give 1 to one node drawn at random, 0 to the others."""
        drawn = np.zeros(len(scores), dtype=np.int64)
        drawn[self._chance.randrange(len(scores))] = 1
        return drawn

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return shares in random order and whole cards by index, because they are all alike."""
        rows = find_fitting_rows(self._free, fit, node)
        if fit.shape.is_whole:
            return rows
        return np.array(self._chance.sample(rows.tolist(), len(rows)), dtype=np.int64)
