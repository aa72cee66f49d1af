"""Place one claim after the other on a pool without a queue.

The scheduler's own working copy, rankings and policies decide, as the planning state of a cycle
uses them, without the parts that only a queue needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.model.claim import Rejection, Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.reasons.rejection import explain_never, explain_not_now
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.scoring.score_parts import ScoreParts
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.plan import PlacementScore
from gpupool.scheduling.workspace.tentative_placement import (
    describe_choice,
)


@dataclass(frozen=True)
class ChosenSeat:
    """The seat of a claim: its node, its cards, and what it takes of each card's memory."""

    node: int
    rows: Ints
    need: Ints


class SeatChooser:
    """Chooses seats by one policy; a claim is named by the place of its shape in `shapes`."""

    def __init__(self, policy: str, free: FreeCapacity, shapes: Sequence[Shape], seed: int) -> None:
        self._policy = registry.find_policy(policy)
        self._seed = seed
        self._free = free
        self._shapes = shapes
        self._expected: ExpectedDemand | None = None
        self._rankings: list[NodeRanking] = []
        self._rater: NodeRater
        self._parts: ScoreParts | None = None

    def set_expected(self, expected: ExpectedDemand) -> None:
        """Start the policy again if the expected demand has changed, as a pool does."""
        # By identity: the learner makes a new object only when its counts changed enough.
        if expected is self._expected:
            return
        self._expected = expected
        self._parts = None
        self._rater = self._policy.start_rater(self._free, expected.without_partitions, self._seed)
        if not self._rankings:
            self._rankings = [NodeRanking(shape, self._free, self._rater) for shape in self._shapes]
        for ranking in self._rankings:
            ranking.set_rater(self._rater)

    def choose_seat(self, number: int) -> ChosenSeat | None:
        """Choose a seat; None if the claim fits nowhere. Takes nothing."""
        ranking = self._rankings[number]
        node = ranking.find_best()
        if node is None:
            return None
        rows = ranking.order_cards(node)[: self._shapes[number].count]
        return ChosenSeat(node, rows, ranking.fit.need[rows])

    def compute_score(self, number: int, seat: ChosenSeat) -> PlacementScore:
        """Compute the score of a chosen seat that is not taken yet, with its parts."""
        assert self._expected is not None
        if self._parts is None:
            self._parts = ScoreParts(self._free, self._expected.without_partitions, self._rater)
        return self._parts.compute_score(self._rankings[number], seat.node, seat.rows)

    def describe_seat(self, number: int, seat: ChosenSeat) -> str:
        """Describe why the policy chose the seat, in a sentence."""
        choice = int(self._rankings[number].fit.roomy.sum())
        return describe_choice(
            self._rater, self._free.cards.nodes[seat.node], choice, len(seat.rows)
        )

    def explain_rejection(self, number: int) -> Rejection:
        """Explain why a claim fits nowhere now."""
        fit = self._rankings[number].fit
        return explain_never(fit, self._free) or explain_not_now(fit, self._free)

    def take_seat(self, number: int, seat: ChosenSeat) -> None:
        """Take the seat's cards and amounts, and tell the policy."""
        shape = self._shapes[number]
        self._free.take_seats(
            seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes
        )
        self._rater.on_take(shape, seat.node)

    def release_seat(self, number: int, seat: ChosenSeat) -> None:
        """Give the seat back: the exact opposite of `take_seat`."""
        shape = self._shapes[number]
        self._free.release_seats(
            seat.node, seat.rows, shape.held_milli, seat.need, shape.cpu_milli, shape.host_bytes
        )
        self._rater.on_release(shape, seat.node)
