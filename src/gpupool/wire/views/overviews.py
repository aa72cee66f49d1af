"""The pool at one look: what there is, what is held, what waits, what is wrong, and what it costs."""

from __future__ import annotations

from pydantic import Field

from gpupool.wire.capacity import ModelRoom
from gpupool.wire.common import WireModel
from gpupool.wire.jobs import JobOut
from gpupool.wire.views.job_pages import QueuedOut


class CardCounts(WireModel):
    """Cards of the pool's own nodes, each counted once."""

    total: int
    open: int = Field(description="can be handed out")
    draining: int
    failed: int = Field(description="failed or lost")
    observed: int = Field(description="not adopted: shown and never handed out")


class FailingCard(WireModel):
    """A card that is not well."""

    device: str = Field(description="node:index")
    model: str
    state: str
    health: str
    reason: str


class TenantHolding(WireModel):
    """What a tenant holds now."""

    tenant: str
    held_milli: int
    held_bytes: int


class MyJobs(WireModel):
    """The caller's own jobs."""

    pending: int
    starting: int
    running: int
    recent: list[JobOut] = Field(description="the latest submitted")


class TodayOut(WireModel):
    """The card time since midnight UTC, in the caller's scope. Costs are null without a price list."""

    since_ns: int
    until_ns: int = Field(description="as counted, a few seconds ago")
    held_card_milliseconds: int = Field(description="gpu milli times whole seconds")
    idle_card_milliseconds: int | None = Field(None, description="of the pool; for admins")
    currency: str | None = None
    cost_micro: int | None = Field(None, description="of what was held, in millionths")


class OverviewOut(WireModel):
    """The pool at one look. Names of other tenants are shown to admins alone."""

    at_ns: int
    seq: int = Field(description="the last event that it contains")
    simulated: bool = Field(description="at least one card is simulated")
    cards: CardCounts
    capacity_milli: int = Field(description="of all cards that are adopted")
    held_milli: int
    free_milli: int = Field(description="can be handed out now; the rest drains or has failed")
    models: list[ModelRoom] = Field(description="with the largest share that fits now")
    tenants: list[TenantHolding] = Field(description="those that hold most, first")
    waiting: int = Field(description="jobs of all tenants that wait")
    queue: list[QueuedOut] = Field(description="the head of the queue")
    failing: list[FailingCard] = Field(description="cards that are not well, the worst first")
    failing_total: int
    silent_nodes: list[str]
    mine: MyJobs
    today: TodayOut
