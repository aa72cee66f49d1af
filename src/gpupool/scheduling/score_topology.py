"""Which cards of a node go together: the best-linked set for those who take several, and good sets kept for later.

The placement policy chooses the node; this chooses among the node's whole cards, and says which nodes can hold a claim
inside one island (NVLink, PCIe switch, NUMA node). Shares of single cards stay the policy's.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.boards import Board, Boards, places
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints


class LinkedSets:
    """The links of a pool's nodes; nodes of which none are known have no islands but the node itself."""

    def __init__(self, free: Free) -> None:
        self._free = free
        self._boards = Boards()
        self._of_node: dict[int, Board] = {}

    def concerns(self, shape: Shape) -> bool:
        """Whether links have a say in which cards such a claim gets."""
        return shape.whole or (shape.count > 1 and shape.within.required is not None)

    def nodes(self, fit: Fit, nodes: Ints, level: str) -> Bools:
        """Which of these nodes can hold the claim inside one island of the level."""
        count = fit.shape.count
        held = (count <= 1 or self._holds(fit, int(node), level) for node in nodes)
        return np.fromiter(held, dtype=np.bool_, count=len(nodes))

    def choose(self, fit: Fit, node: int) -> Ints | None:
        """Rows of the node's best-linked set for the claim; None where links have no say or nothing is known of them.

        A required level holds always, a preferred one where the node can hold it.
        """
        board = self._board(node)
        if board is None or not self.concerns(fit.shape):
            return None
        fitting, free, rows = self._masks(fit, node)
        wish = fit.shape.within
        for level in (wish.required or wish.preferred, wish.required):
            found = board.best(fitting, free, fit.shape.count, level if fit.shape.count > 1 else None)
            if found:
                return rows[places(found)]
        return None

    def _holds(self, fit: Fit, node: int, level: str) -> bool:
        board = self._board(node)
        if board is None:
            return level == "node"
        return board.holds(level, self._masks(fit, node)[0], fit.shape.count)

    def _masks(self, fit: Fit, node: int) -> tuple[int, int, Ints]:
        rows = self._free.of_node(node)
        return _mask(fit.why[rows] == FITS), _mask(self._free.untouched(rows)), rows

    def _board(self, node: int) -> Board | None:
        links = self._free.cards.links.get(node)
        if links is not None and node not in self._of_node:
            uuids = [self._free.cards.uuids[row] for row in self._free.of_node(node)]
            self._of_node[node] = self._boards.of(links, uuids)
        return self._of_node.get(node)


def _mask(chosen: Bools) -> int:
    return sum(1 << int(place) for place in np.flatnonzero(chosen))
