"""What would be different: a change to the pool that is only simulated, and what the queue would
come to."""

from __future__ import annotations

from typing import Annotated, Literal

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
    sharing: Literal["fixed", "burst", "best-effort", "offline"] | None = Field(
        None, description="the sharing that every share has; whole cards and partitions keep theirs"
    )
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
    policy: str = Field("", description="the placement policy of this side")
    sharing: str | None = Field(
        None, description="the sharing of every share; null: each share has its own"
    )
    sharing_changed: int = Field(0, description="jobs whose sharing is another one here")
    sharing_unchanged: int = Field(
        0, description="running jobs whose card has no compute left for the other sharing"
    )
    stranded_memory_bytes: int = Field(
        0, description="memory that is free on cards without free compute"
    )
    currency: str | None = Field(None, description="of the cost; null without a price list")
    cost_month_micro: int | None = Field(
        None,
        description="what the cards cost in 730 hours by the price list in force; null: a model has no price",
    )


class WhatIfOut(WireModel):
    before: ForecastOut
    after: ForecastOut
