"""The contract of a placement policy: how good a node is for a shape, and which of its cards to take.

A policy only orders what `feasible` let through; it never decides whether something fits, and knows no queue and no
quota. One file per policy (`score_*.py`), a name in `policies.py`, a run of the contract suite: no more.
"""

from __future__ import annotations

from typing import Protocol

from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Expected, Ints


class Rater(Protocol):
    """One policy at work on one pool. It reads `free`, hears what was taken and given back, and changes nothing."""

    @property
    def epoch(self) -> int:
        """Whoever remembers scores forgets all of them when this has grown; else only those of changed nodes."""

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        """A score for each of these nodes, all of which can take the shape; higher wins, ties go to the lowest rank."""

    def settle(self, scores: Ints) -> Ints:
        """The scores of all feasible nodes beside each other; only a rule that scales them changes anything here."""

    def choose(self, fit: Fit, node: int) -> Ints:
        """Rows of the node's cards to take, as many as the shape has cards."""

    def took(self, shape: Shape, node: int) -> None: ...

    def gave(self, shape: Shape, node: int) -> None: ...


class PlacementPolicy(Protocol):
    """A rule by name. `NODE` and `CARD` are its words for what it chose, for `show` and `explain`."""

    NAME: str
    NODE: str
    CARD: str

    def start(self, free: Free, expected: Expected, seed: int) -> Rater:
        """At work on this pool; the same arguments and the same calls give the same answers."""
