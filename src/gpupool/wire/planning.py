"""What would be different: a change to the pool that is only simulated, and what the queue would
come to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel


class AddIn(WireModel):
    """`nodes` more nodes of `cards` equal cards. Memory null: what the catalogue says of the
    model."""

    model: str = Field(min_length=1, max_length=63)
    cards: int = Field(1, ge=1, le=128)
    nodes: int = Field(1, ge=1, le=1000)
    memory_bytes: int | None = Field(None, ge=1, le=BIG)


class WhatIfIn(WireModel):
    """Nothing given: what the queue will come to as things are."""

    add: list[AddIn] = Field(default_factory=list, max_length=64)
    remove: list[Annotated[str, Field(max_length=255)]] = Field(
        default_factory=list, max_length=1000
    )
    policy: str | None = Field(None, max_length=63)
    nominal_milli: dict[Name, Annotated[int, Field(ge=0, le=BIG)]] = Field(
        default_factory=dict,
        max_length=1000,
        description="guaranteed compute by tenant, in thousandths of a card",
    )
    horizon_seconds: int = Field(86400, ge=60, le=31 * 86400)


class ForecastQueueOut(WireModel):
    """Jobs that wait now. A wait is null where it falls on a job that does not start within the
    horizon."""

    waiting: int
    start_now: int
    start_later: int
    promised: int = Field(0, description="claims that wait and have a promised start now")
    estimated: int = Field(0, description="claims that wait and have an estimated start now")
    estimate_chance_pct: int | None = Field(
        None,
        description="of 100 such estimates so many came true, their mean; null: too little is known",
    )
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None


class ForecastOut(WireModel):
    """One side. What is free is told as it is when everything has started that can start now."""

    nodes: int
    cards: int
    queue: ForecastQueueOut
    tenants: dict[str, ForecastQueueOut] = Field(description="those that the caller may see")
    allocation_now_pct: float | None
    allocation_pct: float | None = Field(description="mean over the horizon")
    largest_milli: int = Field(
        description="the largest claim on one node that would start, in thousandths of a card"
    )
    whole_nodes: int
    evictions: int
    no_end: int = Field(description="jobs of unknown end: here they never end")
    moved: int = Field(description="jobs on removed nodes, which wait again")
    horizon_seconds: float = Field(description="how far this side was looked ahead")


class WhatIfOut(WireModel):
    before: ForecastOut
    after: ForecastOut
