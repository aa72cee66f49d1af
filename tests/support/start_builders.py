"""Busy pools and attempts to start, for tests of the time axis."""

from __future__ import annotations

import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    SeatAmounts,
    get_free_columns,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.seat_count import count_claims_by_node, pick_cards
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.timeline import earliest_start
from gpupool.scheduling.timeline.backfill import (
    Backfill,
)
from gpupool.scheduling.timeline.earliest_start import (
    StartTrial,
)
from gpupool.scheduling.timeline.timeline import Timeline
from tests.support.scheduling_builders import cards
from tests.support.time_builders import running, used_by


def attempt(free: FreeCapacity, shape: Shape, claims: int = 1) -> StartTrial:
    """The first cards that fit now, for all of the claims or for none."""

    def place(_at: int) -> SeatAmounts | None:
        fit = ClaimFit(shape, free)
        found = pick_cards(fit, free, get_free_columns(free), claims)
        return found if int(found.counts.sum()) == claims * shape.count else None

    return StartTrial(place)


def busy(pool: str, *ends: int | None) -> tuple[CardTable, list[RunningJob]]:
    """Cards that are taken whole, one job each, by the ends of these jobs."""
    names = cards(pool).uuids
    full = cards(pool, used=used_by(*names[: len(ends)]))
    return full, [running(f"j{i}", full, names[i], ends=end) for i, end in enumerate(ends)]


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """The shapes whose seats were counted, each time."""
    counted = list[Shape]()

    def look(fit: ClaimFit, free: FreeCapacity, columns: CapacityColumns) -> Ints:
        counted.append(fit.shape)
        return count_claims_by_node(fit, free, columns)

    monkeypatch.setattr(earliest_start, "count_claims_by_node", look)
    return counted


def backfill(pool: CardTable, jobs: list[RunningJob]) -> Backfill:
    return Backfill(FreeCapacity(pool), Timeline(pool, jobs, 0))
