"""The power that a claim adds to a node, as a term of a score, and the power of the whole pool.

A free card draws its full power once it is taken; a card in use draws no more than before. The same
holds for processor packages, which fill one after the other (PWR of Lettich et al., CCGrid 2025).
The figures are in `model/power`. See docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.power import PACKAGE_MILLI, PROCESSOR, find_power_draw
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Watts of a card that cannot be taken: more than all that can.
_NOT_THERE = 1 << 32


class PowerTerm:
    """Added power in watts; `unit` is the difference between busy and idle of the mean card."""

    WORD = "thriftiest"
    PART = "watts"
    PART_UNIT = 1

    def __init__(self, free: FreeCapacity) -> None:
        self._free = free
        watts = [find_power_draw(model) for model in free.cards.models]
        self._idle = np.array([one.idle for one in watts], dtype=np.int64)[free.cards.model]
        self._swing = np.array([one.swing for one in watts], dtype=np.int64)[free.cards.model]
        self.unit = max(1, int(self._swing.sum()) // max(1, len(self._swing)))

    def compute_cost(self, fit: ClaimFit, nodes: Ints) -> Ints:
        """Return the watts that the claim adds to each node, on the cards that add least."""
        return self._compute_card_watts(fit, nodes) + self._compute_processor_watts(
            fit.shape.cpu_milli, nodes
        )

    def compute_pool_watts(self) -> int:
        """Return the watts of all cards and processors as they are now."""
        used = ~self._free.is_untouched() & self._free.open
        cards = int(self._idle.sum()) + int(self._swing[used].sum())
        hosts = self._free.cards.hosts
        if hosts is None:
            return cards
        packages = int(_count_packages(hosts.cpu_milli).sum())
        busy = int(
            _count_packages(
                self._compute_used_processors(np.arange(len(self._free.cards.nodes)))
            ).sum()
        )
        return cards + packages * PROCESSOR.idle + busy * PROCESSOR.swing

    def _compute_card_watts(self, fit: ClaimFit, nodes: Ints) -> Ints:
        if fit.shape.count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        rows, there = self._free.get_row_table(nodes)
        fits: Bools = (fit.why[rows] == FITS) & there
        watts = np.sort(np.where(fits, self._compute_added_watts(rows), _NOT_THERE), axis=1)
        added: Ints = watts[:, : fit.shape.count].sum(axis=1)
        return added

    def _compute_added_watts(self, rows: Ints) -> Ints:
        """Return the watts that each of these cards draws more once it is taken."""
        return np.where(self._free.is_untouched(rows), self._swing[rows], 0)

    def _compute_processor_watts(self, cpu_milli: int, nodes: Ints) -> Ints:
        if self._free.cards.hosts is None or cpu_milli == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        used = self._compute_used_processors(nodes)
        return (_count_packages(used + cpu_milli) - _count_packages(used)) * PROCESSOR.swing

    def _compute_used_processors(self, nodes: Ints) -> Ints:
        hosts = self._free.cards.hosts
        assert hosts is not None
        used: Ints = np.maximum(hosts.cpu_milli[nodes] - self._free.cpu_milli[nodes], 0)
        return used


def _count_packages(cpu_milli: Ints) -> Ints:
    """Return the packages that so many processors occupy, rounded up."""
    needed: Ints = -(-cpu_milli // PACKAGE_MILLI)
    return needed
