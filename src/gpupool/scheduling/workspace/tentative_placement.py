"""Tentative placements: the seats of one claim in a plan, and the placement that a plan reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.plan import JobPlacement, PlacementScore
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import NOTHING, SeatExtras


@dataclass(frozen=True, eq=False)
class TentativePlacement:
    """The seats of one claim in a plan; `choice` is the number of nodes that it could have had."""

    shape: Shape
    node: int
    rows: Ints
    sizes: Ints
    choice: int
    took: SeatExtras = NOTHING
    scored: PlacementScore | None = None

    @property
    def places(self) -> tuple[PartitionSlot, ...]:
        """Of partitions, the piece of each card."""
        return self.took.places


def make_placement(
    snapshot: Snapshot,
    free: FreeCapacity,
    rater: NodeRater,
    job: str,
    seated: TentativePlacement,
    gang: str = "",
) -> JobPlacement:
    """Make the placement that the ledger records."""
    cards = snapshot.cards
    milli = seated.shape.held_milli
    places: Iterable[PartitionSlot | None] = seated.places or [None] * len(seated.rows)
    each = zip(seated.rows.tolist(), seated.sizes.tolist(), places, strict=True)
    seats = tuple(Seat(cards.uuids[row], milli, size, place) for row, size, place in each)
    generations = tuple(cards.generation[seated.rows].tolist())
    name = cards.nodes[seated.node]
    why = (
        describe_choice(rater, name, seated.choice, len(seats))
        if not seated.places
        else _describe_partition_choice(name, seated)
    )
    return JobPlacement(
        job,
        name,
        seats,
        generations,
        why,
        gang,
        free.numa.list_parts(seated.took.numa),
        seated.scored,
    )


def describe_choice(rater: NodeRater, node: str, choice: int, seats: int) -> str:
    """Describe why a placement is on this node."""
    among = f"{rater.NODE_WORD} of {choice} nodes that fit" if choice > 1 else "only node that fits"
    if not seats:
        return f"{node} is the {among}; it takes no card"
    where = (
        f"on its {rater.CARD_WORD} card"
        if seats == 1
        else f"on its {rater.CARD_WORD} {seats} cards"
    )
    return f"{node} is the {among}; {where}"


def _describe_partition_choice(node: str, seated: TentativePlacement) -> str:
    among = (
        f"the one of {seated.choice} nodes that fit"
        if seated.choice > 1
        else "the only node that fits"
    )
    starts = ", ".join(str(place.start) for place in seated.places)
    return f"{node} is {among} where the cut leaves most; from unit {starts} of its card on"
