"""Compute allocation and fragments by the percent of the demand that has arrived."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, select_typical
from gpupool.scheduling.scoring.fgd import FragmentModel
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints

#: Percent of the cluster's compute that has been asked for.
LEVELS = range(131)


@dataclass(frozen=True)
class DemandLevel:
    """Means over the pods after which that percent had arrived.

    The ratio is None if nothing was idle. The names of the fields stand in results.json.
    """

    arrived_pct: int
    allocation_pct: float
    fragment_pct: float
    fragment_ratio_pct: float | None


class LevelRecord:
    """What was asked for and placed after each pod.

    Fragments are computed at the end for all pods at once: a pod changes one node, so only that
    node's columns before and after it are kept.
    """

    def __init__(self, free: FreeCapacity, expected: ExpectedDemand, pods: int) -> None:
        self._free = free
        self._kinds = NodeKinds(free.cards)
        self._fragments = FragmentModel(select_typical(build_classes(expected)), self._kinds)
        self._asked = np.zeros(pods, dtype=np.int64)
        self._used = np.zeros(pods, dtype=np.int64)
        self._nodes = np.full(pods, -1, dtype=np.int64)
        cells = free.get_compute_grid(np.arange(len(free.cards.nodes)))
        self._first = self._compute_fragments(cells, free.cpu_milli, self._kinds.of_node).sum()
        self._capacity = int(cells[cells > 0].sum())
        self._cells = np.zeros((2, pods, cells.shape[1]), dtype=np.int64)
        self._cpu = np.zeros((2, pods), dtype=np.int64)
        self._at = 0

    def record_drop(self, shape: Shape) -> None:
        self._asked[self._at] = shape.held_milli * shape.count
        self._at += 1

    def record_node_before(self, node: int) -> None:
        self._record_node(0, node)

    def record_placement(self, shape: Shape, node: int) -> None:
        self._record_node(1, node)
        self._nodes[self._at] = node
        self._used[self._at] = shape.held_milli * shape.count
        self.record_drop(shape)

    def compute_levels(self) -> tuple[DemandLevel, ...]:
        """Compute the means by level; F of the cluster changes by what F of one node does."""
        asked = np.cumsum(self._asked)
        used = np.cumsum(self._used)
        fragment = (self._first + np.cumsum(self._compute_changes())) / max(
            self._fragments.total, 1
        )
        # Rounded half up, in which `checking.protocol` agrees by integers.
        level = np.floor(100 * asked / self._capacity + 0.5).astype(np.int64)
        idle = self._capacity - used
        ratio = np.divide(fragment, idle, out=np.full(len(idle), math.nan), where=idle > 0)
        levels: list[DemandLevel] = []
        for arrived in LEVELS:
            at = level == arrived
            if not at.any():
                continue
            share = float(ratio[at].mean() * 100)
            levels.append(
                DemandLevel(
                    arrived_pct=arrived,
                    allocation_pct=float(used[at].mean() / self._capacity * 100),
                    fragment_pct=float(fragment[at].mean() / self._capacity * 100),
                    fragment_ratio_pct=None if math.isnan(share) else share,
                )
            )
        return tuple(levels)

    def _record_node(self, when: int, node: int) -> None:
        self._cells[when, self._at] = self._free.cells[node]
        self._cpu[when, self._at] = self._free.cpu_milli[node]

    def _compute_changes(self) -> Ints:
        changes = np.zeros(len(self._nodes), dtype=np.int64)
        placed = np.flatnonzero(self._nodes >= 0)
        kinds = self._kinds.of_node[self._nodes[placed]]
        before = self._compute_fragments(self._cells[0, placed], self._cpu[0, placed], kinds)
        after = self._compute_fragments(self._cells[1, placed], self._cpu[1, placed], kinds)
        changes[placed] = after - before
        return changes

    def _compute_fragments(self, cells: Ints, cpu_milli: Ints, kinds: Ints) -> Ints:
        return self._fragments.compute_amount(np.maximum(cells, 0), cpu_milli, kinds)
