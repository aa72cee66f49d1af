"""Policies that subtract a second term from another policy's score: added power or added price.

    score = 100 x (points of the policy, in milli-devices) - weight x (addition, in milli-devices)

The addition is converted to milli-devices by the mean card of the pool: a mean card that becomes
busy counts 1000. All terms are integers, so the library and NumPy give equal scores. If the policy
expects no claims yet, the smallest addition wins, then binpack's order. See
docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.scoring import binpack, fgd
from gpupool.scheduling.scoring.binpack import BinpackRater, compute_node_cost
from gpupool.scheduling.scoring.cost_terms.power_term import PowerTerm
from gpupool.scheduling.scoring.cost_terms.price_term import PriceTerm
from gpupool.scheduling.scoring.policy import NodeRater, PlacementPolicy, ScoreUpdater
from gpupool.scheduling.scoring.stream_fill import policy
from gpupool.scheduling.scoring.stream_fill.model import NEAR_STEP, STEP, StreamFillModel
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

#: Bits that binpack's cost of a node takes, below what a claim adds.
_BINPACK_BITS = 28

_MOST_ADDED = (1 << 34) - 1


class ScoreTerm(Protocol):
    """What a claim adds to a node, in a unit of its own."""

    #: What a node is that adds least, for `show` and `explain`.
    WORD: str
    PART: str
    #: What it is called in records, and so many of its units are one there.
    PART_UNIT: int
    #: So much is one mean card's.
    unit: int

    def compute_cost(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return what the claim adds to each of these nodes; not negative."""


class WeightedPolicy:
    """A policy of the registry: a base policy with a weighted term.

    Args:
        name: The name of the policy.
        base: The base policy.
        term: Builds the term for a pool.
        weight_pct: The weight of the term, in hundredths.
        point_milli: Returns the milli-devices of one point of the base score.
    """

    def __init__(
        self,
        name: str,
        base: PlacementPolicy,
        term: Callable[[FreeCapacity], ScoreTerm],
        weight_pct: int,
        point_milli: Callable[[FreeCapacity, ExpectedDemand], int],
    ) -> None:
        self.NAME = name
        self._base = base
        self._term = term
        self._weight_pct = weight_pct
        self._point_milli = point_milli

    def start_rater(self, free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
        rater = self._base.start_rater(free, expected, seed)
        term = self._term(free)
        if isinstance(rater, BinpackRater):
            return LeastAddedRater(free, rater, term)
        return WeightedRater(free, rater, term, self._weight_pct, self._point_milli(free, expected))


class WeightedRater:
    """The base score less the weighted addition; the base policy chooses the cards of a node."""

    NEEDS_NORMALIZATION = False

    def __init__(
        self,
        free: FreeCapacity,
        base: NodeRater,
        term: ScoreTerm,
        weight_pct: int,
        point_milli: int,
    ) -> None:
        self._free = free
        self.base = base
        self.term = term
        self.weight_pct = weight_pct
        self.point = 100 * point_milli
        self.NODE_WORD = f"{base.NODE_WORD} and {term.WORD}"
        self.CARD_WORD = base.CARD_WORD

    def begin_plan(self, generation: int) -> None:
        self.base.begin_plan(generation)

    @property
    def epoch(self) -> int:
        return self.base.epoch

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        """Return None: the native library does not compute the term."""
        return None

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        added = self.term.compute_cost(fit, nodes) * WHOLE // self.term.unit
        return self.point * self.base.rate_nodes(fit, nodes) - self.weight_pct * added

    def normalize_scores(self, scores: Ints) -> Ints:
        return scores

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return self.base.order_cards(fit, node)

    def can_reuse_card(self, shape: Shape) -> bool:
        """Return False: the next claim may cause an addition that this one did not."""
        return False

    def on_take(self, shape: Shape, node: int) -> None:
        self.base.on_take(shape, node)

    def on_release(self, shape: Shape, node: int) -> None:
        self.base.on_release(shape, node)


class LeastAddedRater(WeightedRater):
    """The smallest addition wins, then binpack's order."""

    def __init__(self, free: FreeCapacity, base: NodeRater, term: ScoreTerm) -> None:
        super().__init__(free, base, term, 100, 1)

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        added = np.minimum(
            self.term.compute_cost(fit, nodes) * WHOLE // self.term.unit, _MOST_ADDED
        )
        score: Ints = -(added << _BINPACK_BITS) - compute_node_cost(self._free, fit.shape, nodes)
        return score


#: Milli-devices to one of FGD's points where its curve is steepest: 25 points for each 1000.
FGD_POINT = 40


def _get_fgd_point(free: FreeCapacity, expected: ExpectedDemand) -> int:
    return FGD_POINT


def _get_stream_point(free: FreeCapacity, expected: ExpectedDemand) -> int:
    near = StreamFillModel.choose(free, expected).near
    return NEAR_STEP if near else STEP


# Weights were chosen on three openb lists with other seeds than the bench's (decision 0031).
ALL = (
    WeightedPolicy("power", binpack, PowerTerm, 100, _get_fgd_point),
    WeightedPolicy("fgd+power", fgd, PowerTerm, 10, _get_fgd_point),
    WeightedPolicy("default+power", policy, PowerTerm, 25, _get_stream_point),
    WeightedPolicy("fgd+price", fgd, PriceTerm, 5, _get_fgd_point),
    WeightedPolicy("default+price", policy, PriceTerm, 10, _get_stream_point),
)
