"""Which cards of a node go together: the best-linked set for those who take several, and good sets kept for later.

The placement policy chooses the node; this chooses among the node's whole cards, and says which nodes can hold a claim
inside one island (NVLink, PCIe switch, NUMA node). Shares of single cards stay the policy's. Of sets with equally good
links the one wins whose NUMA nodes have most of the processors and the memory that are asked for.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling import near
from gpupool.scheduling.boards import Board, Boards, places
from gpupool.scheduling.domains import NODE
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

    def ever(self, fit: Fit, level: str) -> bool:
        """Whether any node, empty and with every card open, has one island of the level that is large enough."""
        for node in np.flatnonzero(self._free.count_by_node(fit.possible) >= fit.shape.count).tolist():
            board, mine = self._board(node), fit.possible[self._free.of_node(node)]
            if level == NODE or (board is not None and board.holds(level, _mask(mine), fit.shape.count)):
                return True
        return False

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
            found = self._best(board, fit, rows, (fitting, free), level if fit.shape.count > 1 else None)
            if found:
                return rows[places(found)]
        return None

    def _best(self, board: Board, fit: Fit, rows: Ints, masks: tuple[int, int], level: str | None) -> int:
        """The best-linked set; among those inside one NUMA node another one where that has more of what is asked."""
        fitting, free = masks
        shape, numa = fit.shape, self._free.numa
        found = board.best(fitting, free, shape.count, level)
        if not found or not near.concerns(self._free, shape):
            return found
        of = numa.of_card[rows]
        inside = [board.best(fitting & _mask(of == n), free, shape.count, level) for n in np.unique(of[of >= 0])]
        lacks = {one: near.far(numa, shape, rows[places(one)]) for one in (found, *inside) if one}
        if near.required(shape):
            lacks = {one: lack for one, lack in lacks.items() if one in inside and not lack}
        return max(lacks, key=lambda one: (board.total(one), -lacks[one]), default=0)

    def _holds(self, fit: Fit, node: int, level: str) -> bool:
        board = self._board(node)
        if board is None:
            return level == NODE
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
