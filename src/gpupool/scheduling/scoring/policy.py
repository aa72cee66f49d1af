"""The contract of a placement policy: scores of nodes for a shape, and an order of their cards.

A policy orders what the filter admits. It never decides whether something fits, and knows no queue
and no quota. A new policy is one module here, one entry in `registry`, and one run of the contract
tests (tests/contract/test_policies.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_change import ChangedNodes
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

#: Whether it rated all of these nodes; one that did not is not asked again.
ScoreUpdater = Callable[[ChangedNodes], bool]


class NodeRater(Protocol):
    """A policy at work on one pool. It reads free capacity and changes nothing.

    A score depends only on the shape, on the current state of the node and on `epoch`, because
    `ranking` caches the scores of unchanged nodes.
    """

    #: Whether `settle` has anything to do.
    NEEDS_NORMALIZATION: bool

    NODE_WORD: str
    #: Its words for what it chooses, for `show` and `explain`: the fullest, the tightest.
    CARD_WORD: str

    def begin_plan(self, generation: int) -> None:
        """Start a plan on the snapshot of that generation. Idempotent.

        From here on answers depend only on the snapshot and on what the plan does.
        """

    @property
    def epoch(self) -> int:
        """A counter that grows when every cached score is invalid, not only those of changed nodes."""

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return a score per node; the highest score wins, ties go to the lowest rank.

        Args:
            fit: The filter's result for the shape, fresh.
            nodes: Nodes that can take the shape.

        Returns:
            Scores above the lowest int64, which means "not feasible".
        """

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        """Return a function that rates a list of nodes and writes the scores.

        Args:
            fit: The filter's result for the shape.
            scores: Where the function writes.

        Returns:
            The function; it accepts nodes that are not roomy. None: `rate_nodes` is called instead.
        """

    def normalize_scores(self, scores: Ints) -> Ints:
        """Return the scores of all feasible nodes relative to each other, lowest rank first.

        Only called if NEEDS_NORMALIZATION is true.
        """

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return the rows of the node's fitting cards, best first.

        A claim takes cards from the front. All cards are returned, because a quota or the topology
        may skip some.
        """

    def can_reuse_card(self, shape: Shape) -> bool:
        """Return whether the next equal claim takes the same card for as long as it has room.

        True saves a search for each member of a gang. False is always correct.
        """

    def on_take(self, shape: Shape, node: int) -> None:
        """Record that a claim took seats. Called after `FreeCapacity.take_seats`.

        Claims that ran before the policy started are not reported.
        """

    def on_release(self, shape: Shape, node: int) -> None:
        """Record that seats were released, or that a rollback undid an `on_take`."""


class PlacementPolicy(Protocol):
    """A placement policy by name."""

    NAME: str

    def start_rater(self, free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
        """Start the policy on a pool.

        Args:
            free: The free capacity of the pool.
            expected: The demand that is likely to come.
            seed: The source of randomness; equal arguments and calls give equal answers.
        """


def find_fitting_rows(free: FreeCapacity, fit: ClaimFit, node: int) -> Ints:
    """Return the rows of the node's fitting cards, lowest index first."""
    rows = free.get_node_rows(node)
    fitting: Ints = rows[fit.why[rows] == FITS]
    return fitting


def order_tightest(free: FreeCapacity, fit: ClaimFit, node: int) -> Ints:
    """Return the rows of the node's fitting cards, least free compute first, then by index."""
    rows = find_fitting_rows(free, fit, node)
    return rows[np.argsort(free.milli[rows], kind="stable")]


class StatelessRater:
    """The answers of a rater that has no state, no normalization and no expiring scores."""

    NEEDS_NORMALIZATION = False
    epoch = 0

    def begin_plan(self, generation: int) -> None:
        """Do nothing: there is no state."""

    def build_updater(self, fit: ClaimFit, scores: NativeScores) -> ScoreUpdater | None:
        return None

    def normalize_scores(self, scores: Ints) -> Ints:
        return scores

    def can_reuse_card(self, shape: Shape) -> bool:
        return False

    def on_take(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""

    def on_release(self, shape: Shape, node: int) -> None:
        """Do nothing: free capacity is the only state."""
