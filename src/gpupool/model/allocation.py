"""What was granted: seats on cards, with a generation that every write must name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpupool.model.partition import PartitionSlot


class AllocationState(StrEnum):
    GRANTED = "granted"
    PREPARED = "prepared"
    RELEASING = "releasing"
    RELEASED = "released"


TRANSITIONS: Mapping[AllocationState, frozenset[AllocationState]] = {
    AllocationState.GRANTED: frozenset(
        {AllocationState.PREPARED, AllocationState.RELEASING, AllocationState.RELEASED}
    ),
    AllocationState.PREPARED: frozenset({AllocationState.RELEASING, AllocationState.RELEASED}),
    AllocationState.RELEASING: frozenset({AllocationState.RELEASED}),
    AllocationState.RELEASED: frozenset(),
}

#: States in which the seats are taken and the meter runs.
HELD = frozenset(AllocationState) - {AllocationState.RELEASED}


@dataclass(frozen=True)
class Seat:
    """One card's part of an allocation: compute that is held, and memory; of a card in partition
    mode, which piece."""

    device: str
    gpu_milli: int
    memory_bytes: int
    partition: PartitionSlot | None = None


@dataclass(frozen=True)
class Allocation:
    id: str
    claim: str
    job: str
    node: str
    seats: tuple[Seat, ...]
    state: AllocationState
    generation: int
