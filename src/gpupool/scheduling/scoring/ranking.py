"""The feasible nodes of a shape in order, cached from one decision to the next.

Equal shapes get equal answers, and a placement changes one node. Scores are therefore kept and
updated only on the nodes that changed. A decision is then one search for the highest score.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_change import NEVER_READ
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_scores import NativeScores
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: The score of a node that does not take the claim: below every score of a policy.
NOT_FEASIBLE = int(np.iinfo(np.int64).min)


class NodeRanking:
    """The ranking of one shape: `fit` says where it can go, `find_best` where it should."""

    def __init__(self, shape: Shape, free: FreeCapacity, rater: NodeRater) -> None:
        self.fit = ClaimFit(shape, free)
        self._free = free
        self._rater = rater
        #: By rank, so that the first of equals is the one with the lowest.
        self._scores = np.full(len(free.cards.nodes), NOT_FEASIBLE, dtype=np.int64)
        self._read = free.get_cursor()
        self._epoch = -1
        #: No score of this policy was read yet.
        self._is_new = True
        self._compiled: NativeScores | None = None

    def set_rater(self, rater: NodeRater) -> None:
        """Use another policy, or a restarted one. All scores are computed again, the fit is not."""
        self._rater = rater
        self._epoch = -1
        self._is_new = True

    def _start_updater(self) -> None:
        free = self._free
        scores = self._scores
        self._is_new = False
        if self._compiled is not None:
            self._compiled.forget_highest()
        elif free.kernel is not None:
            self._compiled = NativeScores(free.kernel, scores, free.rank, self.fit.roomy)
        #: Rates in one step what is listed as changed, where the policy can do so.
        self._updater = self._compiled and self._rater.build_updater(self.fit, self._compiled)

    def refresh(self) -> NodeRanking:
        """Update the fit. Scores are updated when they are read."""
        self.fit.refresh(self._free)
        return self

    def find_best(
        self, among: Bools | None = None, wished: Callable[[Ints], Bools] | None = None
    ) -> int | None:
        """Return the feasible node with the highest score, or None.

        Args:
            among: Mask of the nodes to consider; None is all.
            wished: Selects preferred nodes among those with the highest score. The first node wins
                if it
                selects none.
        """
        self._update_scores()
        if among is None and wished is None and self._compiled and self._updater:
            at = self._compiled.find_best()
            return int(self._free.order[at]) if at >= 0 else None
        scores = self._scores
        if among is not None:
            scores = np.where(among[self._free.order], scores, NOT_FEASIBLE)
        if self._rater.NEEDS_NORMALIZATION:
            scores = self._normalize(scores)
        at = int(scores.argmax()) if len(scores) else -1
        if at < 0 or scores[at] == NOT_FEASIBLE:
            return None
        if wished is not None:
            # A preference breaks ties only: topology that is merely preferred never costs packing.
            alike = self._free.order[np.flatnonzero(scores == scores[at])]
            liked = alike[wished(alike)]
            return int((liked if len(liked) else alike)[0])
        return int(self._free.order[at])

    def get_score(self, node: int) -> int:
        """Return the score of the node that `find_best` just returned."""
        scores = self._normalize(self._scores) if self._rater.NEEDS_NORMALIZATION else self._scores
        return int(scores[self._free.rank[node]])

    def order_cards(self, node: int) -> Ints:
        """Return the rows of the node's fitting cards, best first."""
        return self._rater.order_cards(self.fit, node)

    def _update_scores(self) -> None:
        epoch = self._rater.epoch
        free = self._free
        if self._is_new:
            self._start_updater()
        # A new epoch (other prices) makes every kept score stale, changed node or not.
        since = self._read if epoch == self._epoch else NEVER_READ
        self.fit.refresh(free)
        listed = free.locate_changed_nodes(since)
        # An updater that refuses once (its policy was replaced) is not asked again.
        if listed.number and not (self._updater and self._updater(listed)):
            self._updater = None
            self._rate_nodes(free.list_changed_nodes(since))
        self._read = free.get_cursor()
        self._epoch = epoch

    def _rate_nodes(self, nodes: Ints) -> None:
        roomy = nodes[self.fit.roomy[nodes]]
        self._scores[self._free.rank[nodes]] = NOT_FEASIBLE
        if len(roomy):
            self._scores[self._free.rank[roomy]] = self._rater.rate_nodes(self.fit, roomy)

    def _normalize(self, scores: Ints) -> Ints:
        feasible = scores != NOT_FEASIBLE
        settled = np.full(len(scores), NOT_FEASIBLE, dtype=np.int64)
        if feasible.any():
            settled[feasible] = self._rater.normalize_scores(scores[feasible])
        return settled


class NodeRankings:
    """Rankings by shape.

    Only the most recently used ones are kept, so that many different shapes do not use unlimited
    memory.

    Args:
        free: The free capacity of the pool.
        rater: The policy.
        kept: How many rankings are kept.
        cuts: Rates shapes that are partitions, if any.
    """

    def __init__(
        self, free: FreeCapacity, rater: NodeRater, kept: int = 512, cuts: NodeRater | None = None
    ) -> None:
        self._free = free
        self._rater = rater
        self._cuts = cuts
        self._kept = kept
        self._of: OrderedDict[Shape, NodeRanking] = OrderedDict()

    def get_ranking(self, shape: Shape) -> NodeRanking:
        """Return the ranking of a shape with a fresh fit."""
        found = self._of.get(shape)
        if found is not None:
            self._of.move_to_end(shape)
            return found.refresh()
        rater = self._rater if shape.profile is None or self._cuts is None else self._cuts
        ranking = self._of[shape] = NodeRanking(shape, self._free, rater)
        # The least recently used ranking goes. Its shape is judged anew when it comes again, which
        # costs time and changes nothing.
        if len(self._of) > self._kept:
            self._of.popitem(last=False)
        return ranking
