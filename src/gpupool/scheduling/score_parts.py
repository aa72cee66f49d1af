"""What a score is made of: for records of a simulation, which say for each placement why it won.

Asked before the claim takes its seats, of the policy at work as it is then; nothing is computed where nobody records.
Reads the same worths and prices as the policies and decides nothing. A policy without parts has its score alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.compiled import CompiledFgd, CompiledStreamFill
from gpupool.scheduling.expected import Kinds, histogram, typical
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.prices import Prices
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.score_fragmentation import Fgd, Fragments
from gpupool.scheduling.score_stream import FRESH_CARD, Look, StreamFill, is_one_share
from gpupool.scheduling.score_weighted import Adding
from gpupool.scheduling.snapshot import Expected, Ints, Scored

Named = Mapping[str, float]


class Parts(Protocol):
    """The parts of one policy's score."""

    def of(self, fit: Fit, node: int, rows: Ints) -> Named:
        """For a claim that is about to take these cards."""


class NoParts:
    """The score says it all."""

    def of(self, fit: Fit, node: int, rows: Ints) -> Named:
        return {}


@dataclass
class ScoreParts:
    """The parts of whatever policy is at work on a pool."""

    free: Free
    expected: Expected
    rater: Rater
    _parts: Parts = field(init=False)

    def __post_init__(self) -> None:
        self._parts = _parts_of(self.rater, self.free, self.expected)

    def of(self, ranking: Ranking, node: int, rows: Ints) -> Scored:
        """Of a claim that is about to take these cards of the node that its ranking gave."""
        parts = {} if ranking.fit.shape.profile is not None else self._parts.of(ranking.fit, node, rows)
        return Scored(ranking.score(node), tuple(parts.items()))


class FragmentParts:
    """`fragments`: by how much the fragments that expected claims see change, in milli-devices."""

    def __init__(self, free: Free, expected: Expected) -> None:
        self._free = free
        self._kinds = Kinds(free.cards)
        self._fragments = Fragments(typical(histogram(expected)), self._kinds)

    def of(self, fit: Fit, node: int, rows: Ints) -> Named:
        free, kinds = self._free, self._kinds.of_node[[node]]
        before, cpu = np.maximum(free.grid(np.array([node])), 0), free.cpu_milli[[node]]
        at = np.isin(free.seats(np.array([node]))[0], rows)
        after = np.where(at, before - fit.shape.held_milli, before)
        amount = self._fragments.amount
        change = amount(after, cpu - fit.shape.cpu_milli, kinds) - amount(before, cpu, kinds)
        return {"fragments": _rounded(int(change[0]) / max(1, self._fragments.total))}


class StreamParts:
    """In milli-devices; their sum, divided by `step` and rounded down, is the score.

    `claim` is what is placed, `worth` what the node is worth to expected claims afterwards, less what it was; a share
    pays for a `fresh_card`, claims pay for `slots` of dear hosts and for a rare `model`; `cuts` is what cards lose of
    their worth in any case.
    """

    def __init__(self, free: Free, expected: Expected, prices: Prices) -> None:
        look = Look.of(free, expected)
        self._free, self._prices = free, prices
        self._kinds = look.kinds(free)
        self._resource, self._step = look.resource, look.step
        self._host_free = look.resource.free_of(free)
        self._cuts = look.cuts(self._kinds)
        self._values = look.values(self._kinds, self._cuts)

    def of(self, fit: Fit, node: int, rows: Ints) -> Named:
        shape, values, nodes = fit.shape, self._values, np.array([node])
        kind, host = int(self._kinds.of_node[node]), int(self._host_free[node])
        state = values.state(kind, host, values.cells(self._free, nodes)[0].tolist())
        seat, asked = values.seat(shape, kind), self._resource.of_shape(shape)
        if is_one_share(shape):
            size = int(values.sizes(self._free, rows[:1])[0])
            after, opened = values.cut(state, asked, host, size, seat), int(values.is_bare(size))
        else:
            after = values.placed(state, asked, host, shape.count, seat)
            opened = values.bare(state) - values.bare(after)
        placed = shape.count * shape.held_milli
        return {
            "claim": placed,
            "worth": _rounded((values.of(after) - values.of(state)) / values.scale),
            "fresh_card": 0 if shape.whole else -FRESH_CARD * opened,
            "slots": -int(self._prices.lost(nodes, np.array([opened]), asked)[0]),
            "model": _rounded(-int(self._prices.tolls(values.scale * placed)[kind]) / values.scale),
            "cuts": _rounded(int(self._cuts.least(shape)[kind])),
            "step": self._step,
        }


class AddedParts:
    """The base policy's score with its parts; `points` x `base` less `weight_pct` x `added` is the score.

    `added` is what the claim adds to the pool's power or price in milli-devices of a mean card, `watts` or `price` the
    same in the term's own unit.
    """

    def __init__(self, rater: Adding, base: Parts) -> None:
        self._rater = rater
        self._base = base

    def of(self, fit: Fit, node: int, rows: Ints) -> Named:
        rater, nodes = self._rater, np.array([node])
        cost = int(rater.term.cost(fit, nodes)[0])
        return {
            "points": rater.point,
            "base": int(rater.base.rate(fit, nodes)[0]),
            "weight_pct": rater.weight_pct,
            "added": cost * WHOLE // rater.term.unit,
            rater.term.PART: _rounded(cost / rater.term.PART_UNIT),
            **self._base.of(fit, node, rows),
        }


def _parts_of(rater: Rater, free: Free, expected: Expected) -> Parts:
    if isinstance(rater, Adding):
        return AddedParts(rater, _parts_of(rater.base, free, expected))
    if isinstance(rater, StreamFill | CompiledStreamFill):
        return StreamParts(free, expected, rater.prices)
    if isinstance(rater, Fgd | CompiledFgd):
        return FragmentParts(free, expected)
    return NoParts()


def _rounded(value: float) -> float:
    return round(value, 3) + 0.0  # no -0.0
