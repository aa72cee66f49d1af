"""The value model of Stream Fill: which node values, prices and steps suit a pool and its demand.

Measured in docs/concepts/placement.md; see docs/decisions/0007-placement-policy.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import (
    DemandClasses,
    NodeKinds,
    build_classes,
    find_scarcer_resource,
    is_memory_relevant,
    is_short,
    select_typical,
)
from gpupool.scheduling.scoring.host_resource import PROCESSORS, HostResource
from gpupool.scheduling.scoring.stream_fill.partial_card_value import (
    PartialCardValues,
    compute_mean_share,
    is_scattered,
)
from gpupool.scheduling.scoring.stream_fill.value_memory import (
    MemoryNextClaimValueModel,
    MemoryStreamValueModel,
)
from gpupool.scheduling.scoring.stream_fill.value_next_claim import NextClaimValueModel
from gpupool.scheduling.scoring.stream_fill.value_stream import (
    NodeValueModel,
    StreamValueModel,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand

#: Milli-devices to one step of the score; from 100 to 200 do as well, finer ones scatter claims.
STEP = 150

#: Of shares with a smaller mean (in milli-devices) steps are smaller, by the square of it: 150
#: hides where a share of 100 goes. Up to 1.6 points with 5 to 20 small sizes. By memory of cards
#: they are not: 1.1 to 2.3 points are lost.
FINE_STEP_BELOW = 475

#: The same where claims end; 25 does as well, 100 does not.
NEAR_STEP = 40

#: The same where shares are of so many sizes that none stands out: hardly two nodes tie, and that
#: is worth 0.2 to 0.6 points with 99 to 999 sizes (40 leaves gpu-packing ahead).
SCATTERED_STEP = 1

#: The weight of the values of parts of cards beside the value of the node: what streams fill.
CUTS = 2.0
#: The same beside what the next claim could use.
NEAR_CUTS = 0.25
#: The same where shares have so many sizes that none stands out.
SCATTERED_CUTS = 0.5

#: From so much on that comes back, the next claim counts and not the stream.
ENDING_PCT = 50
#: Claims that frequencies are counted from, at most: the error of more is far below a percent.
MOST_KNOWN = 1e12


@dataclass(frozen=True)
class StreamFillModel:
    """The choice of the value model, made once from expected demand and pool.

    `near`: the next claim counts instead of the stream. That holds if claims end, or if sizes are
    so many (`scattered`) that no stream of 200 claims represents them. `resource` is the host
    resource that values and prices count. If it runs out before cards do (`short`), the claims that
    share a host decide, and streams see those. Parts of cards then have no value. `known` is the
    number of claims that the frequencies were counted from.
    """

    classes: DemandClasses
    likely: DemandClasses
    ending: bool = False
    scattered: bool = False
    resource: HostResource = PROCESSORS
    short: bool = False
    known: float = 0.0

    @classmethod
    def choose(cls, free: FreeCapacity, expected: ExpectedDemand) -> StreamFillModel:
        """Choose the model for a pool and its expected demand."""
        by_memory = is_memory_relevant(expected, free.cards)
        classes = build_classes(expected, by_memory=by_memory)
        likely = select_typical(classes)
        ending = expected.returned_pct >= ENDING_PCT
        # As in `round_weights`: what is no number counts as nothing, and no count is infinite.
        known = float(sum(min(count, MOST_KNOWN) for count in expected.counts if count > 0))
        look = cls(classes, likely, ending, is_scattered(likely), known=known)
        if look.ending:
            return look
        resource = find_scarcer_resource(expected, free.cards)
        look = replace(look, short=is_short(expected, free.cards, resource))
        if look.near or resource is PROCESSORS:
            return look
        classes = build_classes(expected, by_memory=by_memory, resource=resource)
        return replace(look, classes=classes, likely=select_typical(classes), resource=resource)

    @property
    def near(self) -> bool:
        """Whether the value of a node is what the next claim could use."""
        return self.ending or (self.scattered and not self.short)

    def build_kinds(self, free: FreeCapacity) -> NodeKinds:
        """Return the kinds of nodes that the classes distinguish."""
        return NodeKinds(free.cards, self.classes, self.resource)

    def build_part_values(self, kinds: NodeKinds) -> PartialCardValues:
        """Return the values of parts of cards, all 0 if memory counts.

        Prices of the cutting stock problem mislead for cards that are limited by compute and
        memory.
        """
        times = CUTS if not self.near else SCATTERED_CUTS if self.scattered else NEAR_CUTS
        if kinds.by_memory or self.short:
            return PartialCardValues(self.likely, kinds, 0.0)
        return PartialCardValues(self.likely, kinds, times, None if self.near else self.known)

    def build_node_values(self, kinds: NodeKinds, cuts: PartialCardValues) -> NodeValueModel:
        """Return the value model of nodes."""
        if kinds.by_memory:
            return (MemoryNextClaimValueModel if self.near else MemoryStreamValueModel)(
                self.likely, kinds, cuts
            )
        return (NextClaimValueModel if self.near else StreamValueModel)(self.likely, kinds, cuts)

    @property
    def step(self) -> int:
        """The milli-devices of one step of the score."""
        if self.near:
            return SCATTERED_STEP if self.scattered else NEAR_STEP
        mean = compute_mean_share(self.likely)
        if len(self.likely.memory) or not 0 < mean < FINE_STEP_BELOW:
            return STEP
        return max(1, STEP * mean * mean // FINE_STEP_BELOW**2)
