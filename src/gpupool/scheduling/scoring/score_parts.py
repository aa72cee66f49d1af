"""The parts of a score, for records of a simulation that explain each placement.

The parts are computed before the claim takes its seats, from the policy at work as it is then.
Nothing is computed unless a simulation records scores. A policy without parts only has its score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.cost_terms.weighted_policy import WeightedRater
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, select_typical
from gpupool.scheduling.scoring.fgd import FgdRater, FragmentModel
from gpupool.scheduling.scoring.native_policies import CompiledFgdRater, CompiledStreamFillRater
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.scoring.stream_fill.model import StreamFillModel
from gpupool.scheduling.scoring.stream_fill.policy import FRESH_CARD, StreamFillRater, is_one_share
from gpupool.scheduling.scoring.stream_fill.scarcity import ScarcityPrices
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.plan import PlacementScore

PartValues = Mapping[str, float]


class PartsReader(Protocol):
    """The parts of one policy's score."""

    def compute_parts(self, fit: ClaimFit, node: int, rows: Ints) -> PartValues:
        """Return the parts for a claim that is about to take these cards."""


class NoScoreParts:
    """A policy whose score has no parts."""

    def compute_parts(self, fit: ClaimFit, node: int, rows: Ints) -> PartValues:
        return {}


@dataclass
class ScoreParts:
    """The parts of the score of whatever policy is at work on a pool."""

    free: FreeCapacity
    expected: ExpectedDemand
    rater: NodeRater
    _parts: PartsReader = field(init=False)

    def __post_init__(self) -> None:
        self._parts = _choose_reader(self.rater, self.free, self.expected)

    def compute_score(self, ranking: NodeRanking, node: int, rows: Ints) -> PlacementScore:
        """Return score and parts of a claim that is about to take these cards of the best node."""
        parts = (
            {}
            if ranking.fit.shape.profile is not None
            else self._parts.compute_parts(ranking.fit, node, rows)
        )
        return PlacementScore(ranking.get_score(node), tuple(parts.items()))


class FragmentParts:
    """`fragments`: the change of the fragments that expected claims see, in milli-devices."""

    def __init__(self, free: FreeCapacity, expected: ExpectedDemand) -> None:
        self._free = free
        self._kinds = NodeKinds(free.cards)
        self._fragments = FragmentModel(select_typical(build_classes(expected)), self._kinds)

    def compute_parts(self, fit: ClaimFit, node: int, rows: Ints) -> PartValues:
        free = self._free
        kinds = self._kinds.of_node[[node]]
        before = np.maximum(free.get_compute_grid(np.array([node])), 0)
        cpu = free.cpu_milli[[node]]
        at = np.isin(free.get_row_table(np.array([node]))[0], rows)
        after = np.where(at, before - fit.shape.held_milli, before)
        amount = self._fragments.compute_amount
        change = amount(after, cpu - fit.shape.cpu_milli, kinds) - amount(before, cpu, kinds)
        return {"fragments": _round_value(int(change[0]) / max(1, self._fragments.total))}


class StreamParts:
    """The parts of a Stream Fill score, in milli-devices.

    Their sum divided by `step` and rounded down is the score. `claim` is the compute that is
    placed. `worth` is the change of the node's value to expected claims. `fresh_card` is the price
    of a free card for a share. `slots` is the price of lost slots on scarce hosts, `model` that of
    a scarce model. `cuts` is the loss of card value that is unavoidable.
    """

    def __init__(
        self, free: FreeCapacity, expected: ExpectedDemand, prices: ScarcityPrices
    ) -> None:
        look = StreamFillModel.choose(free, expected)
        self._free = free
        self._prices = prices
        self._kinds = look.build_kinds(free)
        self._resource = look.resource
        self._step = look.step
        self._host_free = look.resource.get_free(free)
        self._cuts = look.build_part_values(self._kinds)
        self._values = look.build_node_values(self._kinds, self._cuts)

    def compute_parts(self, fit: ClaimFit, node: int, rows: Ints) -> PartValues:
        shape = fit.shape
        values = self._values
        nodes = np.array([node])
        kind = int(self._kinds.of_node[node])
        host = int(self._host_free[node])
        state = values.build_state(kind, host, values.get_cells(self._free, nodes)[0].tolist())
        seat = values.measure_seat(shape, kind)
        asked = self._resource.get_asked(shape)
        if is_one_share(shape):
            size = int(values.get_sizes(self._free, rows[:1])[0])
            after = values.cut_card(state, asked, host, size, seat)
            opened = int(values.is_bare(size))
        else:
            after = values.place_claim(state, asked, host, shape.count, seat)
            opened = values.count_bare(state) - values.count_bare(after)
        placed = shape.count * shape.held_milli
        return {
            "claim": placed,
            "worth": _round_value(
                (values.get_value(after) - values.get_value(state)) / values.scale
            ),
            "fresh_card": 0 if shape.is_whole else -FRESH_CARD * opened,
            "slots": _round_value(
                -int(self._prices.price_lost_slots(nodes, np.array([opened]), asked)[0]) / 1000
            ),
            "model": _round_value(
                -int(self._prices.compute_tolls(values.scale * placed)[kind]) / values.scale
            ),
            "cuts": _round_value(int(self._cuts.compute_least_loss(shape)[kind])),
            "step": self._step,
        }


class AddedParts:
    """The parts of a weighted score: `points` x `base` - `weight_pct` x `added` is the score.

    `added` is what the claim adds to power or price in milli-devices of a mean card. `watts` or
    `price` is the same in the unit of the term.
    """

    def __init__(self, rater: WeightedRater, base: PartsReader) -> None:
        self._rater = rater
        self._base = base

    def compute_parts(self, fit: ClaimFit, node: int, rows: Ints) -> PartValues:
        rater = self._rater
        nodes = np.array([node])
        cost = int(rater.term.compute_cost(fit, nodes)[0])
        return {
            "points": rater.point,
            "base": int(rater.base.rate_nodes(fit, nodes)[0]),
            "weight_pct": rater.weight_pct,
            "added": cost * WHOLE // rater.term.unit,
            rater.term.PART: _round_value(cost / rater.term.PART_UNIT),
            **self._base.compute_parts(fit, node, rows),
        }


def _choose_reader(rater: NodeRater, free: FreeCapacity, expected: ExpectedDemand) -> PartsReader:
    if isinstance(rater, WeightedRater):
        return AddedParts(rater, _choose_reader(rater.base, free, expected))
    if isinstance(rater, StreamFillRater | CompiledStreamFillRater):
        return StreamParts(free, expected, rater.prices)
    if isinstance(rater, FgdRater | CompiledFgdRater):
        return FragmentParts(free, expected)
    return NoScoreParts()


def _round_value(value: float) -> float:
    # Adding 0.0 turns -0.0 into 0.0, so that records of equal scores are equal texts.
    return round(value, 3) + 0.0  # no -0.0
