"""The contract of a placement policy: how good a node is for a shape, and which of its cards to take.

A policy only orders what `feasible` let through; it never decides whether something fits, and knows no queue and no
quota. One file per policy (`score_*.py`), a name in `policies.py`, a run of the contract suite: no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free, Listed
from gpupool.scheduling.kernel_calls import Scores
from gpupool.scheduling.snapshot import Expected, Ints

Mender = Callable[[Listed], bool]
"""Whether it rated all of these nodes; one that did not is not asked again."""


class Rater(Protocol):
    """One policy at work on one pool. It reads `free`, hears what was taken and given back, and changes nothing.

    A score may depend on the shape, on the node as it is and on what `epoch` counts, on nothing else: `ranking` keeps
    scores of nodes that did not change.
    """

    SCALED: bool
    """Whether `settle` has anything to do."""

    NODE: str
    CARD: str
    """Its words for what it chooses, for `show` and `explain`: the fullest, the tightest."""

    def restart(self, generation: int) -> None:
        """A plan on the snapshot of that generation starts: from here on every answer depends on the snapshot and on
        what the plan does, and on nothing that was before. Idempotent.
        """

    @property
    def epoch(self) -> int:
        """Whoever remembers scores forgets all of them when this has grown; else only those of changed nodes."""

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        """A score for each of these nodes, all of which can take the shape; higher wins, ties go to the lowest rank.

        `fit` is fresh. Scores are above the lowest int64, which stands for "not feasible".
        """

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        """What does as `rate` for all nodes of a list, roomy or not, and writes the scores; None: `rate` is asked."""

    def settle(self, scores: Ints) -> Ints:
        """The scores of all feasible nodes, lowest rank first, as they stand beside each other; asked if SCALED."""

    def choose(self, fit: Fit, node: int) -> Ints:
        """Rows of the node's fitting cards, best first: a claim takes as many of them as it asks for, from the front.

        All of them are given, because a quota or a topology may pass over some.
        """

    def follows(self, shape: Shape) -> bool:
        """Whether the next equal claim takes the card of the one before it for as long as that has room.

        True saves a search for each member of a gang; False is always right.
        """

    def took(self, shape: Shape, node: int) -> None:
        """Told after `Free.take`, by whoever took; what lay on the nodes before the start it never hears."""

    def gave(self, shape: Shape, node: int) -> None:
        """Told after `Free.give`, and for each `took` that a rollback has undone."""


class PlacementPolicy(Protocol):
    """A rule by name."""

    NAME: str

    def start(self, free: Free, expected: Expected, seed: int) -> Rater:
        """At work on this pool; the same arguments and the same calls give the same answers."""


def fitting_rows(free: Free, fit: Fit, node: int) -> Ints:
    """Rows of the node's cards that fit, lowest index first."""
    rows = free.of_node(node)
    fitting: Ints = rows[fit.why[rows] == FITS]
    return fitting


def tightest(free: Free, fit: Fit, node: int) -> Ints:
    """Rows of the node's cards that fit, those with least compute left first, then by index."""
    rows = fitting_rows(free, fit, node)
    return rows[np.argsort(free.milli[rows], kind="stable")]


class Unmoved:
    """What a rater answers that scales nothing, remembers nothing and whose scores never age."""

    SCALED = False
    epoch = 0

    def restart(self, generation: int) -> None:
        """Nothing is remembered."""

    def mender(self, fit: Fit, scores: Scores) -> Mender | None:
        return None

    def settle(self, scores: Ints) -> Ints:
        return scores

    def follows(self, shape: Shape) -> bool:
        return False

    def took(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""

    def gave(self, shape: Shape, node: int) -> None:
        """Nothing to remember: what is free says it all."""
