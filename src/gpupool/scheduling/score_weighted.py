"""Policies that weigh something else beside another policy's score: the power that a claim adds, or the price.

    score = 100 x (points of the policy, in milli-devices) - weight x (what the claim adds, in milli-devices)

What a claim adds is put into milli-devices by what the mean card of the pool comes to: to light up a mean card is 1000.
Only whole numbers are added, on top of scores that the kernel and NumPy give alike. Where the policy expects
nothing yet, the claim goes where it adds least, then as binpack has it.
Docs: docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling import score_binpack, score_fragmentation, score_stream
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel_calls import Scores
from gpupool.scheduling.policy import Mender, PlacementPolicy, Rater
from gpupool.scheduling.score_binpack import Binpack, node_cost
from gpupool.scheduling.snapshot import Expected, Ints
from gpupool.scheduling.term_power import PowerTerm
from gpupool.scheduling.term_price import PriceTerm

_BINPACK_BITS = 28
"""Bits that binpack's cost of a node takes, below what a claim adds."""

_MOST_ADDED = (1 << 34) - 1


class Term(Protocol):
    """What a claim adds to a node, in units of its own."""

    WORD: str
    """What a node is that adds least, for `show` and `explain`."""
    PART: str
    PART_UNIT: int
    """What it is called in records, and so many of its units are one there."""
    unit: int
    """So much is one mean card's."""

    def cost(self, fit: Fit, nodes: Ints) -> Ints:
        """At each of these nodes, all of which can take the claim; not negative."""


class Weighted:
    """A policy of the registry: `base` with a term of that weight, in hundredths."""

    def __init__(
        self,
        name: str,
        base: PlacementPolicy,
        term: Callable[[Free], Term],
        weight_pct: int,
        point_milli: Callable[[Free, Expected], int],
    ) -> None:
        self.NAME = name
        self._base = base
        self._term = term
        self._weight_pct = weight_pct
        self._point_milli = point_milli

    def start(self, free: Free, expected: Expected, seed: int) -> Rater:
        rater, term = self._base.start(free, expected, seed), self._term(free)
        if isinstance(rater, Binpack):
            return LeastAdding(free, rater, term)
        return Adding(free, rater, term, self._weight_pct, self._point_milli(free, expected))


class Adding:
    """The base's score less what the claim adds; which cards of a node it gets is for the base to say."""

    SCALED = False

    def __init__(self, free: Free, base: Rater, term: Term, weight_pct: int, point_milli: int) -> None:
        self._free = free
        self.base = base
        self.term = term
        self.weight_pct = weight_pct
        self.point = 100 * point_milli
        self.NODE = f"{base.NODE} and {term.WORD}"
        self.CARD = base.CARD

    def restart(self, generation: int) -> None:
        self.base.restart(generation)

    @property
    def epoch(self) -> int:
        return self.base.epoch

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        """None: what the kernel would write has no term in it."""
        return None

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        added = self.term.cost(fit, nodes) * WHOLE // self.term.unit
        return self.point * self.base.rate(fit, nodes) - self.weight_pct * added

    def settle(self, scores: Ints) -> Ints:
        return scores

    def choose(self, fit: Fit, node: int) -> Ints:
        return self.base.choose(fit, node)

    def follows(self, shape: Shape) -> bool:
        """The next claim may light up what this one did not."""
        return False

    def took(self, shape: Shape, node: int) -> None:
        self.base.took(shape, node)

    def gave(self, shape: Shape, node: int) -> None:
        self.base.gave(shape, node)


class LeastAdding(Adding):
    """What a claim adds goes before everything, then binpack's order."""

    def __init__(self, free: Free, base: Rater, term: Term) -> None:
        super().__init__(free, base, term, 100, 1)

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        added = np.minimum(self.term.cost(fit, nodes) * WHOLE // self.term.unit, _MOST_ADDED)
        score: Ints = -(added << _BINPACK_BITS) - node_cost(self._free, fit.shape, nodes)
        return score


#: Milli-devices to one of FGD's points where its curve is steepest: 25 points for each 1000.
FGD_POINT = 40


def _of_fgd(free: Free, expected: Expected) -> int:
    return FGD_POINT


def _of_stream(free: Free, expected: Expected) -> int:
    near = score_stream.Look.of(free, expected).near
    return score_stream.NEAR_STEP if near else score_stream.STEP


# Weights were chosen on three openb lists with other seeds than the bench's (decision 0031).
ALL = (
    Weighted("power", score_binpack, PowerTerm, 100, _of_fgd),
    Weighted("fgd+power", score_fragmentation, PowerTerm, 10, _of_fgd),
    Weighted("default+power", score_stream, PowerTerm, 25, _of_stream),
    Weighted("fgd+price", score_fragmentation, PriceTerm, 5, _of_fgd),
    Weighted("default+price", score_stream, PriceTerm, 10, _of_stream),
)
