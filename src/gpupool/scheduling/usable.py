"""What a node is worth to the one claim that comes next: how much of what is free the expected classes could use.

The complement of the fragment in "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): a class that can run on the
node could use what is free on the cards wide enough for one of its seats, one that cannot could use nothing; the mean
over the classes, weighted by how often they come. It looks less far ahead than `streams`, and that is right where
claims end: who ends changes a node long before two hundred more have come to it.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from gpupool.base.units import WHOLE
from gpupool.scheduling.cutting import Cuts
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.streams import State, States


class Usable(States):
    """Worths for these classes, times the sum of their weights."""

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        self.scale = classes.total
        super().__init__(classes, kinds, cuts)
        self._lists = [_by_class(classes.only(runs), self._grain) for runs in self._runs]

    def _worth(self, state: State) -> int:
        free = state.whole * WHOLE
        below = (0, *accumulate(state.parts))
        cards, worth = len(state.parts) + state.whole, 0
        for host, count, milli, weight in self._lists[state.menu]:
            narrow = bisect_left(state.parts, milli)
            if host <= state.host and count <= cards - narrow:
                worth += weight * (free + below[-1] - below[narrow])
        return worth


def _by_class(classes: Classes, grain: int) -> list[tuple[int, int, int, int]]:
    """Grains of the host (rounded up), cards, milli, weight."""
    columns = -(-classes.host // grain), classes.count, classes.milli, classes.weight
    return list(zip(*(column.tolist() for column in columns), strict=True))
