"""The choice of linked cards on a node: the best-linked set, while good sets are kept for later.

The policy chooses the node. This module chooses among its whole cards, and says which nodes can
hold a claim inside one island (NVLink, PCIe switch, NUMA node). Shares of single cards are left to
the policy. Of equally linked sets the one wins whose NUMA nodes have more of the requested
processors and memory.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.domains import NODE_LEVEL
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.link_scores import LinkScoreCache, LinkScores, list_places
from gpupool.scheduling.snapshot.columns import Bools, Ints


class LinkedCardSets:
    """The links of the nodes of one pool.

    A node whose links are unknown has no island but the node itself.
    """

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free
        self._cache = LinkScoreCache()
        self._of_node: dict[int, LinkScores] = {}

    def is_relevant(self, shape: Shape) -> bool:
        """Return whether links influence which cards the shape gets."""
        return shape.is_whole or (shape.count > 1 and shape.within.required is not None)

    def find_nodes(self, fit: ClaimFit, nodes: Ints, level: str) -> Bools:
        """Return a mask of the nodes that can hold the claim inside one island of the level."""
        count = fit.shape.count
        held = (count <= 1 or self._has_island(fit, int(node), level) for node in nodes)
        return np.fromiter(held, dtype=np.bool_, count=len(nodes))

    def can_ever_fit(self, fit: ClaimFit, level: str) -> bool:
        """Return whether any empty node with all cards open has a large enough island of the level."""
        for node in np.flatnonzero(
            self._free.count_cards_by_node(fit.possible) >= fit.shape.count
        ).tolist():
            board = self._get_scores(node)
            mine = fit.possible[self._free.get_node_rows(node)]
            if level == NODE_LEVEL or (
                board is not None and board.has_island(level, _build_mask(mine), fit.shape.count)
            ):
                return True
        return False

    def choose_cards(self, fit: ClaimFit, node: int) -> Ints | None:
        """Return the rows of the node's best-linked set for the claim.

        A required level is always met, a preferred one if the node can.

        Returns:
            The rows; None if links are irrelevant or unknown.
        """
        board = self._get_scores(node)
        if board is None or not self.is_relevant(fit.shape):
            return None
        fitting, free, rows = self._build_masks(fit, node)
        wish = fit.shape.within
        for level in (wish.required or wish.preferred, wish.required):
            found = self._find_best(
                board, fit, rows, (fitting, free), level if fit.shape.count > 1 else None
            )
            if found:
                return rows[list_places(found)]
        return None

    def _find_best(
        self,
        board: LinkScores,
        fit: ClaimFit,
        rows: Ints,
        masks: tuple[int, int],
        level: str | None,
    ) -> int:
        """Return the best-linked set; of equals the one whose NUMA nodes lack least."""
        fitting, free = masks
        shape = fit.shape
        numa = self._free.numa
        found = board.find_best(fitting, free, shape.count, level)
        if not found or not numa_affinity.is_numa_relevant(self._free, shape):
            return found
        of = numa.of_card[rows]
        inside = list[int]()
        for n in np.unique(of[of >= 0]):
            inside.append(board.find_best(fitting & _build_mask(of == n), free, shape.count, level))
        required = numa_affinity.is_numa_required(shape)
        lacks = dict[int, int]()
        for one in (found, *inside):
            if one:
                lack = numa_affinity.compute_shortfall(numa, shape, rows[list_places(one)])
                # Where one NUMA node is required, a set across several never counts.
                if not required or (one in inside and not lack):
                    lacks[one] = lack
        # Links first: they are what the claim's cards use most. NUMA only decides between equals.
        return max(lacks, key=lambda one: (board.sum_links(one), -lacks[one]), default=0)

    def _has_island(self, fit: ClaimFit, node: int, level: str) -> bool:
        board = self._get_scores(node)
        if board is None:
            return level == NODE_LEVEL
        return board.has_island(level, self._build_masks(fit, node)[0], fit.shape.count)

    def _build_masks(self, fit: ClaimFit, node: int) -> tuple[int, int, Ints]:
        rows = self._free.get_node_rows(node)
        return _build_mask(fit.why[rows] == FITS), _build_mask(self._free.is_untouched(rows)), rows

    def _get_scores(self, node: int) -> LinkScores | None:
        links = self._free.cards.links.get(node)
        if links is not None and node not in self._of_node:
            uuids = [self._free.cards.uuids[row] for row in self._free.get_node_rows(node)]
            self._of_node[node] = self._cache.get_scores(links, uuids)
        return self._of_node.get(node)


def _build_mask(chosen: Bools) -> int:
    return sum(1 << int(place) for place in np.flatnonzero(chosen))
