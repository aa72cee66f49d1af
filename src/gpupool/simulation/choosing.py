"""One claim after the other on a pool without a queue, by a policy that begins anew with what it expects.

The scheduler's own working copy, rankings and policies decide: what a board does for a cycle, without what only a queue
needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.model.claim import Shape
from gpupool.scheduling import policies
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.snapshot import Expected, Ints


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

    def expect(self, expected: Expected) -> None:
        """The policy begins anew where that is something else than before, as in a pool."""
        if expected is self._expected:
            return
        self._expected = expected
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

    def take(self, number: int, seat: Seat) -> None:
        shape = self._shapes[number]
        self._free.take(seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes)
        self._rater.took(shape, seat.node)

    def give(self, number: int, seat: Seat) -> None:
        """The exact opposite of `take`."""
        shape = self._shapes[number]
        self._free.give(seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes)
        self._rater.gave(shape, seat.node)
