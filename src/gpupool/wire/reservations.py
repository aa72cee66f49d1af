"""Reservations: capacity held for a tenant from a time on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel
from gpupool.wire.submissions import ShapeIn


class ReservationIn(WireModel):
    """`replicas` times the shape, from start to end; with `every_seconds` again and again. Instants
    in Unix ns."""

    name: Name
    shape: ShapeIn
    replicas: int = Field(1, ge=1, le=10_000)
    start_ns: int = Field(ge=0, le=BIG)
    end_ns: int | None = Field(None, ge=0, le=BIG, description="null: until it is deleted")
    every_seconds: int | None = Field(None, ge=60, le=366 * 86400)
    until_ns: int | None = Field(
        None, ge=0, le=BIG, description="no repetition begins from then on"
    )
    tenant: str | None = Field(None, max_length=63, description="another tenant: admins only")


class ReservationOut(WireModel):
    id: str
    name: str
    tenant: str
    user: str = Field(description="who made it")
    share: str
    count: int
    model: str | None = None
    replicas: int
    state: Literal["planned", "active", "ended"]
    start_ns: int = Field(
        description="of the coming or present time, of one that has ended its first"
    )
    end_ns: int | None
    every_seconds: int | None = None
    until_ns: int | None = None
