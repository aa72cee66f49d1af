"""A shape judged against a pool, with what is free."""

from __future__ import annotations

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    get_free_columns,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardTable


def fitted(pool: CardTable, shape: Shape) -> tuple[ClaimFit, FreeCapacity, CapacityColumns]:
    free = FreeCapacity(pool)
    return ClaimFit(shape, free), free, get_free_columns(free)
