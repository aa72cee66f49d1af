"""One claim after the other on a pool without a queue, by a policy that begins anew with what it expects.

The scheduler's own working copy, rankings and policies decide: what a board does for a cycle, without what only a queue
needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.model.claim import Rejection, Shape
from gpupool.scheduling import policies
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.refusal import never, not_now
from gpupool.scheduling.score_parts import ScoreParts
from gpupool.scheduling.snapshot import Expected, Ints, Scored
from gpupool.scheduling.work import why_there


@dataclass(frozen=True)
class Seat:
    """Where a claim sits, and what it takes of the memory of each card."""

    node: int
    rows: Ints
    need: Ints


class Chooser:
    """Shapes are asked for by their place in `shapes`."""

    def __init__(self, policy: str, free: Free, shapes: Sequence[Shape], seed: int) -> None:
        self._policy, self._seed = policies.named(policy), seed
        self._free, self._shapes = free, shapes
        self._expected: Expected | None = None
        self._rankings: list[Ranking] = []
        self._rater: Rater
        self._parts: ScoreParts | None = None

    def expect(self, expected: Expected) -> None:
        """The policy begins anew where that is something else than before, as in a pool."""
        if expected is self._expected:
            return
        self._expected = expected
        self._parts = None
        self._rater = self._policy.start(self._free, expected.shares, self._seed)
        if not self._rankings:
            self._rankings = [Ranking(shape, self._free, self._rater) for shape in self._shapes]
        for ranking in self._rankings:
            ranking.rate_by(self._rater)

    def choose(self, number: int) -> Seat | None:
        """None where the claim fits nowhere."""
        ranking = self._rankings[number]
        node = ranking.best()
        if node is None:
            return None
        rows = ranking.choose(node)[: self._shapes[number].count]
        return Seat(node, rows, ranking.fit.need[rows])

    def scored(self, number: int, seat: Seat) -> Scored:
        """What speaks for a seat that was chosen and is not taken yet."""
        assert self._expected is not None
        if self._parts is None:
            self._parts = ScoreParts(self._free, self._expected.shares, self._rater)
        return self._parts.of(self._rankings[number], seat.node, seat.rows)

    def why(self, number: int, seat: Seat) -> str:
        """The same as a sentence."""
        choice = int(self._rankings[number].fit.roomy.sum())
        return why_there(self._rater, self._free.cards.nodes[seat.node], choice, len(seat.rows))

    def refusal(self, number: int) -> Rejection:
        """Why a claim fits nowhere now."""
        fit = self._rankings[number].fit
        return never(fit, self._free) or not_now(fit, self._free)

    def take(self, number: int, seat: Seat) -> None:
        shape = self._shapes[number]
        self._free.take(seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes)
        self._rater.took(shape, seat.node)

    def give(self, number: int, seat: Seat) -> None:
        """The exact opposite of `take`."""
        shape = self._shapes[number]
        self._free.give(seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes)
        self._rater.gave(shape, seat.node)
