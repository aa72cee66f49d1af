"""The value of a node to the next claim: how much free compute the expected classes could use.

It is the complement of the fragment in "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). A
class that can run on the node could use the free compute of the cards with room for one of its
seats; a class that cannot run could use nothing. The value is the sum over the classes, weighted by
their frequency. It looks less far ahead than `value_stream`. That is right if claims end, because a
node changes long before two hundred more claims arrive.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from gpupool.base.units import WHOLE
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.scoring.stream_fill.partial_card_value import PartialCardValues
from gpupool.scheduling.scoring.stream_fill.value_stream import NodeState, NodeValueModel


class NextClaimValueModel(NodeValueModel):
    """Values for these classes, times the sum of their weights."""

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        self.scale = classes.total
        super().__init__(classes, kinds, cuts)
        self._lists = [_list_classes(classes.select(runs), self._grain) for runs in self._runs]

    def _compute_worth(self, state: NodeState) -> int:
        free = state.whole * WHOLE
        below = (0, *accumulate(state.parts))
        cards = len(state.parts) + state.whole
        worth = 0
        for host, count, milli, weight in self._lists[state.menu]:
            narrow = bisect_left(state.parts, milli)
            if host <= state.host and count <= cards - narrow:
                # Prefix sums over ascending parts: all parts from `narrow` on are wide enough.
                worth += weight * (free + below[-1] - below[narrow])
        return worth


def _list_classes(classes: DemandClasses, grain: int) -> list[tuple[int, int, int, int]]:
    """Return per class grains of the host (rounded up), cards, milli-devices and weight."""
    columns = -(-classes.host // grain), classes.count, classes.milli, classes.weight
    return list(zip(*(column.tolist() for column in columns), strict=True))
