"""What a claim would add to a node's power: a term of a score, and the draw of the whole pool.

A free card that is taken draws its full power from then on, a card in use draws no more than before; a processor
package likewise, packages being filled one after the other (PWR of Lettich et al., CCGrid 2025). Facts are in
`model.power`. Docs: docs/decisions/0031-power-and-price.md.
"""

from __future__ import annotations

import numpy as np

from gpupool.model.power import PACKAGE_MILLI, PROCESSOR, card_watts
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints

_NOT_THERE = 1 << 32
"""Watts of a card that cannot be taken: more than all that can."""


class PowerTerm:
    """In watts. `unit` are those that the mean card of the pool draws more in use than idle."""

    WORD = "thriftiest"
    PART, PART_UNIT = "watts", 1

    def __init__(self, free: Free) -> None:
        self._free = free
        watts = [card_watts(model) for model in free.cards.models]
        self._idle = np.array([one.idle for one in watts], dtype=np.int64)[free.cards.model]
        self._swing = np.array([one.swing for one in watts], dtype=np.int64)[free.cards.model]
        self.unit = max(1, int(self._swing.sum()) // max(1, len(self._swing)))

    def cost(self, fit: Fit, nodes: Ints) -> Ints:
        """Watts that the claim adds to each of these nodes, on the cards that add least."""
        return self._of_cards(fit, nodes) + self._of_processors(fit.shape.cpu_milli, nodes)

    def of_pool(self) -> int:
        """Watts of all cards and processors as they are now."""
        used = ~self._free.untouched() & self._free.open
        cards = int(self._idle.sum()) + int(self._swing[used].sum())
        hosts = self._free.cards.hosts
        if hosts is None:
            return cards
        packages = int(_packages(hosts.cpu_milli).sum())
        busy = int(_packages(self._used_processors(np.arange(len(self._free.cards.nodes)))).sum())
        return cards + packages * PROCESSOR.idle + busy * PROCESSOR.swing

    def _of_cards(self, fit: Fit, nodes: Ints) -> Ints:
        if fit.shape.count == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        rows, there = self._free.seats(nodes)
        fits: Bools = (fit.why[rows] == FITS) & there
        watts = np.sort(np.where(fits, self._lit(rows), _NOT_THERE), axis=1)
        added: Ints = watts[:, : fit.shape.count].sum(axis=1)
        return added

    def _lit(self, rows: Ints) -> Ints:
        """Watts that each of these cards draws more once it is taken."""
        return np.where(self._free.untouched(rows), self._swing[rows], 0)

    def _of_processors(self, cpu_milli: int, nodes: Ints) -> Ints:
        if self._free.cards.hosts is None or cpu_milli == 0:
            return np.zeros(len(nodes), dtype=np.int64)
        used = self._used_processors(nodes)
        return (_packages(used + cpu_milli) - _packages(used)) * PROCESSOR.swing

    def _used_processors(self, nodes: Ints) -> Ints:
        hosts = self._free.cards.hosts
        assert hosts is not None
        used: Ints = np.maximum(hosts.cpu_milli[nodes] - self._free.cpu_milli[nodes], 0)
        return used


def _packages(cpu_milli: Ints) -> Ints:
    """Packages that so many processors need, rounded up."""
    needed: Ints = -(-cpu_milli // PACKAGE_MILLI)
    return needed
