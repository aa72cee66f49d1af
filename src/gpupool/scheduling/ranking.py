"""The feasible nodes of a shape in order, kept from one decision to the next.

Equal shapes get equal answers, and a placement changes one node: so what a shape was told is kept and mended on the
nodes that changed since. A decision is then one look for the highest score.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import NEVER_READ, Free
from gpupool.scheduling.kernel_calls import Scores
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.snapshot import Bools, Ints

NOT_FEASIBLE = int(np.iinfo(np.int64).min)


class Ranking:
    """One shape: `fit` says where it can go, `best` where it should."""

    def __init__(self, shape: Shape, free: Free, rater: Rater) -> None:
        self.fit = Fit(shape, free)
        self._free, self._rater = free, rater
        self._scores = np.full(len(free.cards.nodes), NOT_FEASIBLE, dtype=np.int64)
        """By rank, so that the first of equals is the one with the lowest."""
        self._read, self._epoch = free.now(), -1
        self._is_new = True
        """Nobody has asked for a score by that policy yet."""
        self._compiled: Scores | None = None

    def rate_by(self, rater: Rater) -> None:
        """Another policy, or the same one begun anew: every score is asked for again, where it fits is not."""
        self._rater, self._epoch = rater, -1
        self._is_new = True

    def _begin_mending(self) -> None:
        free, scores = self._free, self._scores
        self._is_new = False
        if self._compiled is not None:
            self._compiled.forget()
        elif free.kernel is not None:
            self._compiled = Scores(free.kernel, scores, free.rank, self.fit.roomy)
        self._mender = self._compiled and self._rater.mender(self.fit, self._compiled)
        """Rates in one step what is listed as changed, where the policy can do so."""

    def refresh(self) -> Ranking:
        """The fit as it is now; scores are mended when they are asked for."""
        self.fit.refresh(self._free)
        return self

    def best(self, among: Bools | None = None, wished: Callable[[Ints], Bools] | None = None) -> int | None:
        """The feasible node with the highest score (only nodes in `among`), None where there is none.

        Of equals the first for which `wished` says yes, the first of all where it does for none.
        """
        self._mend()
        if among is None and wished is None and self._compiled and self._mender:
            at = self._compiled.best()
            return int(self._free.order[at]) if at >= 0 else None
        scores = self._scores
        if among is not None:
            scores = np.where(among[self._free.order], scores, NOT_FEASIBLE)
        if self._rater.SCALED:
            scores = self._settled(scores)
        at = int(scores.argmax()) if len(scores) else -1
        if at < 0 or scores[at] == NOT_FEASIBLE:
            return None
        if wished is not None:
            alike = self._free.order[np.flatnonzero(scores == scores[at])]
            liked = alike[wished(alike)]
            return int((liked if len(liked) else alike)[0])
        return int(self._free.order[at])

    def score(self, node: int) -> int:
        """Of a node that `best` gave just now."""
        scores = self._settled(self._scores) if self._rater.SCALED else self._scores
        return int(scores[self._free.rank[node]])

    def choose(self, node: int) -> Ints:
        """Rows of the node's fitting cards, best first."""
        return self._rater.choose(self.fit, node)

    def _mend(self) -> None:
        epoch, free = self._rater.epoch, self._free
        if self._is_new:
            self._begin_mending()
        since = self._read if epoch == self._epoch else NEVER_READ
        self.fit.refresh(free)
        listed = free.listed(since)
        if listed.number and not (self._mender and self._mender(listed)):
            self._mender = None
            self._rate(free.changed(since))
        self._read, self._epoch = free.now(), epoch

    def _rate(self, nodes: Ints) -> None:
        roomy = nodes[self.fit.roomy[nodes]]
        self._scores[self._free.rank[nodes]] = NOT_FEASIBLE
        if len(roomy):
            self._scores[self._free.rank[roomy]] = self._rater.rate(self.fit, roomy)

    def _settled(self, scores: Ints) -> Ints:
        feasible = scores != NOT_FEASIBLE
        settled = np.full(len(scores), NOT_FEASIBLE, dtype=np.int64)
        if feasible.any():
            settled[feasible] = self._rater.settle(scores[feasible])
        return settled


class Rankings:
    """Rankings by shape; only those used last are kept, so that many odd shapes do not cost memory without end.

    `cuts` rates the shapes that are partitions, where there are any.
    """

    def __init__(self, free: Free, rater: Rater, kept: int = 512, cuts: Rater | None = None) -> None:
        self._free, self._rater, self._cuts, self._kept = free, rater, cuts, kept
        self._of: OrderedDict[Shape, Ranking] = OrderedDict()

    def of(self, shape: Shape) -> Ranking:
        """The shape's ranking, its fit fresh."""
        found = self._of.get(shape)
        if found is not None:
            self._of.move_to_end(shape)
            return found.refresh()
        rater = self._rater if shape.profile is None or self._cuts is None else self._cuts
        ranking = self._of[shape] = Ranking(shape, self._free, rater)
        if len(self._of) > self._kept:
            self._of.popitem(last=False)
        return ranking
