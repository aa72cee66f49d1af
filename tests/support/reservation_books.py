"""Reservations in a pool with real books."""

from __future__ import annotations

from typing import Any

from gpupool.allocations.cache.reservations import insert_reservation
from gpupool.model.claim import Shape
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.reservations import ReservationIn
from tests.support.metering_books import START_S, Pool, S, principal

VISION = TenantRef(2, "vision", Quota(), ResourceAmount(), 1)


def reserve(
    pool: Pool,
    name: str,
    start_s: int,
    length_s: int,
    milli: int = 1000,
    model: str | None = "L40S",
    **changes: Any,
) -> None:
    """Reserve one seat for the tenant `vision`, in seconds counted from the pool's beginning."""
    body = {
        "name": name,
        "shape": {"gpu_milli": milli, "count": 1, "model": model},
        "start_ns": (START_S + start_s) * S,
        "end_ns": (START_S + start_s + length_s) * S,
    } | changes
    asked = ReservationIn.model_validate(body)
    shape = Shape(asked.shape.gpu_milli, asked.shape.memory_bytes, 1, asked.shape.model)
    with pool.store.write() as write:
        insert_reservation(write, asked, shape, VISION, principal(0))
