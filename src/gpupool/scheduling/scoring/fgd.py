"""The policy fgd: a claim goes where the fragments that expected claims see grow least.

From "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(Weng et al., USENIX ATC 2023). The fragment of a node for a class is all free compute if the class
cannot run there or asks for no card, else the free compute of cards too full for one of its seats.
F is the mean over the expected classes. The score is trunc(100 / (1 + exp(-D / 1000))), where D is
the decrease of F.

All amounts are integers: F is multiplied by the sum of weights, and a score is found by comparing D
with the smallest D of each score. Results are therefore exact on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import (
    DemandClasses,
    NodeKinds,
    build_classes,
    select_typical,
)
from gpupool.scheduling.scoring.native_policies import CompiledFgdRater
from gpupool.scheduling.scoring.policy import NodeRater, StatelessRater, order_tightest
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Floats, Ints

NAME = "fgd"


def start_rater(free: FreeCapacity, expected: ExpectedDemand, seed: int) -> NodeRater:
    """Start the policy on a pool, in the native library if it serves the pool."""
    classes = select_typical(build_classes(expected))
    if free.kernel is not None:
        return CompiledFgdRater(free.kernel, free, classes, compute_thresholds(classes.total))
    return FgdRater(free, classes)


class FragmentModel:
    """F of node states for fixed classes, in milli-devices times the sum of weights (`total`).

    Classes with equal `milli` and `count` see the same cards, so they form one group. The part of a
    group that can run depends on processors and the kind of node, and is looked up in a table.
    """

    def __init__(self, classes: DemandClasses, kinds: NodeKinds) -> None:
        self.total = classes.total
        # A class that is promised no compute can use none, as one without a card.
        some = np.flatnonzero((classes.count > 0) & (classes.milli > 0))
        groups, of_class = np.unique(
            np.stack((classes.milli[some], classes.count[some])), axis=1, return_inverse=True
        )
        self._milli, self._count = groups
        sizes = np.arange(WHOLE + 1)[:, None]
        wide = sizes >= self._milli
        #: Per size of a card's free part and group: whether a seat goes on it, and what is free
        #: where it does.
        self.of_card = np.hstack((wide, wide * sizes)).astype(np.float64)
        self._cpu = np.unique(classes.host[some])
        self._weight = np.zeros((len(kinds), len(self._cpu) + 1, len(self._milli)))
        allowed = kinds.find_allowed(classes.models)
        for place, one in enumerate(some):
            enough = np.arange(len(self._cpu) + 1) > np.searchsorted(self._cpu, classes.host[one])
            self._weight[:, :, of_class.reshape(-1)[place]] += classes.weight[one] * np.outer(
                allowed[one], enough
            )

    def get_weights(self, kinds: Ints, cpu_milli: Ints) -> Floats:
        """Return per node and group the weight of the classes that can run there with these
        processors.
        """
        found: Floats = self._weight[kinds, np.searchsorted(self._cpu, cpu_milli, side="right")]
        return found

    def sum_cards(self, cells: Ints) -> Floats:
        """Return per node and group the cards that take a seat, then (second half) their compute."""
        sums: Floats = self.of_card[cells].sum(axis=1)
        return sums

    def compute_rest(self, seen: Floats, weights: Floats, free: Ints) -> Ints:
        """Return F of states: the free compute less what each group can use of it."""
        groups = len(self._milli)
        usable = ((seen[:, :groups] >= self._count) * seen[:, groups:] * weights).sum(axis=1)
        amount: Ints = self.total * free - usable.astype(np.int64)
        return amount

    def compute_amount(self, cells: Ints, cpu_milli: Ints, kinds: Ints) -> Ints:
        """Return F of nodes with these free cards (one line per node, 0 where there is none)."""
        return self.compute_rest(
            self.sum_cards(cells), self.get_weights(kinds, cpu_milli), cells.sum(axis=1)
        )


class FgdRater(StatelessRater):
    """FGD at work on one pool, for fixed classes, in NumPy."""

    NODE_WORD = "least fragmenting"
    CARD_WORD = "least fragmenting"

    def __init__(self, free: FreeCapacity, classes: DemandClasses) -> None:
        self._free = free
        self._kinds = NodeKinds(free.cards)
        self._fragments = FragmentModel(classes, self._kinds)
        self._steps = compute_thresholds(classes.total)
        self._cuts: dict[int, Floats] = {}

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        cells = np.maximum(self._free.get_compute_grid(nodes), 0)
        if fit.shape.count == 1 and not fit.shape.is_whole:
            best: Ints = self._rate_cards(fit, nodes, cells).max(axis=1)
            return best
        after = _place_claim(cells, fit.shape.count, fit.shape.held_milli)
        kinds = self._kinds.of_node[nodes]
        cpu = self._free.cpu_milli[nodes]
        amount = self._fragments.compute_amount
        return self._compute_score(
            amount(cells, cpu, kinds) - amount(after, cpu - fit.shape.cpu_milli, kinds)
        )

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        """Return the node's cards: by score for a share, tightest first for whole cards."""
        if fit.shape.count != 1 or fit.shape.is_whole:
            return order_tightest(self._free, fit, node)
        nodes = np.array([node])
        scores = self._rate_cards(fit, nodes, np.maximum(self._free.get_compute_grid(nodes), 0))[0]
        best = np.argsort(-scores, kind="stable")
        rows = self._free.get_row_table(nodes)[0][0]
        chosen: Ints = rows[best[: np.count_nonzero(scores >= 0)]]
        return chosen

    def _rate_cards(self, fit: ClaimFit, nodes: Ints, cells: Ints) -> Ints:
        """Return the scores of one share per node and card, -1 where it does not fit."""
        fragments = self._fragments
        milli = fit.shape.held_milli
        kinds = self._kinds.of_node[nodes]
        cpu = self._free.cpu_milli[nodes]
        left = cells.sum(axis=1)
        rows, there = self._free.get_row_table(nodes)
        at, place = np.nonzero((fit.why[rows] == FITS) & there)
        seen = fragments.sum_cards(cells)
        before = fragments.compute_rest(seen, fragments.get_weights(kinds, cpu), left)
        after = fragments.get_weights(kinds, cpu - fit.shape.cpu_milli)
        cut = seen[at] + self._get_cut(milli)[cells[at, place]]
        scores = np.full(cells.shape, -1, dtype=np.int64)
        scores[at, place] = self._compute_score(
            before[at] - fragments.compute_rest(cut, after[at], left[at] - milli)
        )
        return scores

    def _get_cut(self, milli: int) -> Floats:
        """Return how a card's part of `sum_cards` changes when such a share is placed, by free
        compute.
        """
        if milli not in self._cuts:
            of_card = self._fragments.of_card
            self._cuts[milli] = of_card[np.maximum(np.arange(WHOLE + 1) - milli, 0)] - of_card
        return self._cuts[milli]

    def _compute_score(self, gain: Ints) -> Ints:
        return np.searchsorted(self._steps, gain, side="right")


def compute_thresholds(total: int) -> Ints:
    """Return for the scores 1 to 99 the smallest D (times the sum of weights) that reaches it.

    The score is s if 100 / (1 + exp(-D / 1000)) >= s, which is D >= 1000 ln(s / (100 - s)).
    """
    thresholds = list[int]()
    for score in range(1, 100):
        # Computed once, in Python: the library compares with the table, so `exp` and `log` of two
        # runtimes never decide a score.
        least = 1000 * math.log(score / (100 - score))
        thresholds.append(math.ceil(total * least))
    return np.array(thresholds, dtype=np.int64)


def _place_claim(cells: Ints, count: int, milli: int) -> Ints:
    """Return the cells, ascending in each line, after the claim took the tightest cards that fit."""
    cells = np.sort(cells, axis=1)
    first = (cells < milli).sum(axis=1)[:, None]
    places = np.arange(cells.shape[1])
    cells[(places >= first) & (places < first + count)] -= milli
    return cells
