"""Capacity held for later or for a named user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpupool.model.claim import Shape


class ReservationState(StrEnum):
    PLANNED = "planned"
    ACTIVE = "active"
    ENDED = "ended"


TRANSITIONS: Mapping[ReservationState, frozenset[ReservationState]] = {
    ReservationState.PLANNED: frozenset({ReservationState.ACTIVE, ReservationState.ENDED}),
    ReservationState.ACTIVE: frozenset({ReservationState.ENDED}),
    ReservationState.ENDED: frozenset(),
}


@dataclass(frozen=True)
class Reservation:
    """`replicas` times `shape` are held for `tenant` from start to end (ledger nanoseconds; end
    None: until ended).

    With `every_ns` it comes again and again, as long each time, until `until_ns` (None: for ever).
    `name` is how people call it and how a job asks for it; None is a reservation that the scheduler
    made for itself.
    """

    id: str
    tenant: str
    shape: Shape
    start_ns: int
    end_ns: int | None
    state: ReservationState = ReservationState.PLANNED
    name: str | None = None
    replicas: int = 1
    every_ns: int | None = None
    until_ns: int | None = None
