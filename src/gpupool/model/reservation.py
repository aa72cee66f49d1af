"""Capacity held for later or for somebody."""

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
    """`shape` is held for `tenant` from start to end (ledger nanoseconds; end None: until ended)."""

    id: str
    tenant: str
    shape: Shape
    start_ns: int
    end_ns: int | None
    state: ReservationState = ReservationState.PLANNED
