"""FGD: a claim goes where it makes the fragments that expected claims see grow least.

From "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng et al.,
USENIX ATC 2023). The fragment of a node to a class: all that is free if the class cannot run there (or asks for no
card), else what is free on cards too full for one of its seats. F is the mean over the expected classes, a score
trunc(100 / (1 + exp(-D / 1000))) of the D by which F falls. Everything is kept in whole numbers (F times the sum of
weights, each score by the least D that reaches it), so it is exact.
"""

from __future__ import annotations

import math

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.compiled import CompiledFgd
from gpupool.scheduling.expected import Classes, Kinds, histogram, typical
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import Rater, Unmoved, tightest
from gpupool.scheduling.snapshot import Expected, Floats, Ints

NAME = "fgd"


def start(free: Free, expected: Expected, seed: int) -> Rater:
    classes = typical(histogram(expected))
    if free.kernel is not None:
        return CompiledFgd(free.kernel, free, classes, least_d(classes.total))
    return Fgd(free, classes)


class Fragments:
    """F of node states, in milli-devices times the sum of weights (`total`), for these classes.

    Classes with one `milli` and one `count` see the same cards, so they are one group; how much of a group can run is a
    matter of processors and the kind of node, looked up in a table by steps.
    """

    def __init__(self, classes: Classes, kinds: Kinds) -> None:
        self.total = classes.total
        some = np.flatnonzero(classes.count > 0)
        groups, of_class = np.unique(np.stack((classes.milli[some], classes.count[some])), axis=1, return_inverse=True)
        self._milli, self._count = groups
        sizes = np.arange(WHOLE + 1)[:, None]
        wide = sizes >= self._milli
        self.of_card = np.hstack((wide, wide * sizes)).astype(np.float64)
        """Per size of a card's free part and group: whether a seat goes on it, and what is free where it does."""
        self._cpu = np.unique(classes.host[some])
        self._weight = np.zeros((len(kinds), len(self._cpu) + 1, len(self._milli)))
        allowed = kinds.allowed(classes.models)
        for place, one in enumerate(some):
            enough = np.arange(len(self._cpu) + 1) > np.searchsorted(self._cpu, classes.host[one])
            self._weight[:, :, of_class.reshape(-1)[place]] += classes.weight[one] * np.outer(allowed[one], enough)

    def weights(self, kinds: Ints, cpu_milli: Ints) -> Floats:
        """Per node and group, the weight of the group's classes that may run there with so many processors."""
        found: Floats = self._weight[kinds, np.searchsorted(self._cpu, cpu_milli, side="right")]
        return found

    def seen(self, cells: Ints) -> Floats:
        """Per node and group: how many cards take a seat, and (second half) what is free on those."""
        sums: Floats = self.of_card[cells].sum(axis=1)
        return sums

    def left(self, seen: Floats, weights: Floats, free: Ints) -> Ints:
        """F of states: what is `free` in all, less what each group can use of it."""
        groups = len(self._milli)
        usable = ((seen[:, :groups] >= self._count) * seen[:, groups:] * weights).sum(axis=1)
        amount: Ints = self.total * free - usable.astype(np.int64)
        return amount

    def amount(self, cells: Ints, cpu_milli: Ints, kinds: Ints) -> Ints:
        """F of nodes with these free cards (one line per node, 0 where there is none)."""
        return self.left(self.seen(cells), self.weights(kinds, cpu_milli), cells.sum(axis=1))


class Fgd(Unmoved):
    """At work on one pool, for classes that stay as they are."""

    NODE, CARD = "least fragmenting", "least fragmenting"

    def __init__(self, free: Free, classes: Classes) -> None:
        self._free, self._kinds = free, Kinds(free.cards)
        self._fragments = Fragments(classes, self._kinds)
        self._steps = least_d(classes.total)
        self._cuts: dict[int, Floats] = {}

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        cells = np.maximum(self._free.grid(nodes), 0)
        if fit.shape.count == 1 and not fit.shape.whole:
            best: Ints = self._cards(fit, nodes, cells).max(axis=1)
            return best
        after = _placed(cells, fit.shape.count, fit.shape.held_milli)
        kinds, cpu = self._kinds.of_node[nodes], self._free.cpu_milli[nodes]
        amount = self._fragments.amount
        return self._score(amount(cells, cpu, kinds) - amount(after, cpu - fit.shape.cpu_milli, kinds))

    def choose(self, fit: Fit, node: int) -> Ints:
        """One share on the card where it fragments least, the first of equals; whole cards by index."""
        if fit.shape.count != 1 or fit.shape.whole:
            return tightest(self._free, fit, node)
        nodes = np.array([node])
        scores = self._cards(fit, nodes, np.maximum(self._free.grid(nodes), 0))[0]
        best = np.argsort(-scores, kind="stable")
        rows = self._free.seats(nodes)[0][0]
        chosen: Ints = rows[best[: np.count_nonzero(scores >= 0)]]
        return chosen

    def _cards(self, fit: Fit, nodes: Ints, cells: Ints) -> Ints:
        """Scores of one share per node and card; -1 where it does not fit."""
        fragments, milli = self._fragments, fit.shape.held_milli
        kinds, cpu, left = self._kinds.of_node[nodes], self._free.cpu_milli[nodes], cells.sum(axis=1)
        rows, there = self._free.seats(nodes)
        at, place = np.nonzero((fit.why[rows] == FITS) & there)
        seen = fragments.seen(cells)
        before = fragments.left(seen, fragments.weights(kinds, cpu), left)
        after = fragments.weights(kinds, cpu - fit.shape.cpu_milli)
        cut = seen[at] + self._cut(milli)[cells[at, place]]
        scores = np.full(cells.shape, -1, dtype=np.int64)
        scores[at, place] = self._score(before[at] - fragments.left(cut, after[at], left[at] - milli))
        return scores

    def _cut(self, milli: int) -> Floats:
        """What a card's part in `seen` changes by when a share of that size goes on it, by what is free on it."""
        if milli not in self._cuts:
            of_card = self._fragments.of_card
            self._cuts[milli] = of_card[np.maximum(np.arange(WHOLE + 1) - milli, 0)] - of_card
        return self._cuts[milli]

    def _score(self, gain: Ints) -> Ints:
        return np.searchsorted(self._steps, gain, side="right")


def least_d(total: int) -> Ints:
    """For the scores 1 to 99, the least D (times the sum of weights) that reaches it."""
    exact = (1000 * math.log(score / (100 - score)) for score in range(1, 100))
    return np.array([math.ceil(total * least) for least in exact], dtype=np.int64)


def _placed(cells: Ints, count: int, milli: int) -> Ints:
    """The cells, ascending in each line, after a claim took the tightest cards that fit (all of them can)."""
    cells = np.sort(cells, axis=1)
    first = (cells < milli).sum(axis=1)[:, None]
    places = np.arange(cells.shape[1])
    cells[(places >= first) & (places < first + count)] -= milli
    return cells
