"""A working copy of what is free, per card and per node, while one plan is made.

This is the only mutable thing in the scheduler, and it dies with the cycle that made it. It
knows numbers, not rules: whether a claim may take something is decided in `feasible`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.scheduling.snapshot import CARD_STATUS, Bools, Cards, CardStatus, Ints


class Free:
    """Free compute and memory by card, with sums by node kept beside them.

    `changes` lists the nodes in which something was taken, in order, so that whoever remembers
    how far it has read it looks again at those nodes alone.
    """

    def __init__(self, cards: Cards) -> None:
        self.cards = cards
        self.milli = cards.free_milli.copy()
        self.size = cards.free_bytes.copy()
        self.open = cards.status == CARD_STATUS.index(CardStatus.OPEN)
        self.rows = 0
        self.changes: list[int] = []
        self._order = np.argsort(cards.node, kind="stable")
        self._starts = np.searchsorted(cards.node[self._order], np.arange(len(cards.nodes) + 1))
        self.node_milli = self.by_node(np.where(self.open, self.milli, 0))
        self.node_whole = self.count_by_node(self.untouched())
        self._labelled: dict[tuple[str, str], Bools] = {}

    def of_node(self, node: int) -> Ints:
        """Rows of a node's cards, in the order of their index."""
        return self._order[self._starts[node] : self._starts[node + 1]]

    def by_node(self, column: Ints) -> Ints:
        """The column added up over each node's cards."""
        sums = np.bincount(self.cards.node, weights=column, minlength=len(self.cards.nodes))
        return sums.astype(np.int64)

    def count_by_node(self, chosen: Bools) -> Ints:
        """How many of each node's cards are chosen."""
        return np.bincount(self.cards.node[chosen], minlength=len(self.cards.nodes))

    def highest_by_node(self, column: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """The highest value among each node's cards; 0 for a node without any."""
        highest = np.zeros(len(self.cards.nodes), dtype=np.int8)
        some = self._starts[1:] > self._starts[:-1]
        if some.any():
            highest[some] = np.maximum.reduceat(column[self._order], self._starts[:-1][some])
        return highest

    def untouched(self, rows: Ints | slice = slice(None)) -> Bools:
        """Which open cards hold nothing at all, neither compute nor memory."""
        whole: Bools = (self.milli[rows] >= WHOLE) & (self.size[rows] >= self.cards.memory_bytes[rows])
        whole &= self.open[rows]
        return whole

    def labelled(self, label: tuple[str, str]) -> Bools:
        """Which nodes carry the label; looked up once per cycle and label."""
        if label not in self._labelled:
            self._labelled[label] = _carrying(label, self.cards.node_labels)
        return self._labelled[label]

    def take(self, node: int, rows: Ints, milli: int, sizes: Ints) -> None:
        """Hold that much on each of these cards of the node."""
        self.milli[rows] -= milli
        self.size[rows] -= sizes
        mine = self.of_node(node)
        self.node_milli[node] = int(self.milli[mine][self.open[mine]].sum())
        self.node_whole[node] = int(self.untouched(mine).sum())
        self.changes.append(node)


def _carrying(label: tuple[str, str], labels: tuple[Mapping[str, str], ...]) -> Bools:
    key, value = label
    return np.fromiter((has.get(key) == value for has in labels), dtype=np.bool_, count=len(labels))
