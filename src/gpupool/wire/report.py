"""Usage reports that close, and what is used right now."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel
from gpupool.wire.samples import UsageOut

Kind = Literal["tenant", "reserved", "idle", "overhead", "unmanaged"]
By = Literal["tenant", "project", "user", "job", "card"]


class ReportRow(WireModel):
    """One row of a usage report; kinds other than `tenant` account for the rest of the card time.

    `reserved` is what a tenant reserved and no job used.
    """

    kind: Kind
    tenant: str | None = None
    project: str | None = None
    user: str | None = None
    job: str | None = None
    job_name: str | None = None
    device: str | None = None
    model: str | None = None
    card_milliseconds: int = Field(description="gpu milli times whole seconds")
    memory_mib_seconds: int
    delivered_gpu_milliseconds: int | None = Field(
        None, description="GPU time measured, of the jobs that were measured; null: unknown"
    )
    cpu_milliseconds: int | None = None
    cost: str | None = Field(None, description="decimal, when prices are given")
    sharing: str | None = Field(None, description="of a job: it says what its use is limited to")
    kept_gpu_milliseconds: int | None = Field(
        None, description="GPU time within the promise of `card_milliseconds`; null: unknown"
    )
    borrowed_gpu_milliseconds: int | None = Field(
        None, description="GPU time beyond the promise; null: unknown"
    )
    denied_gpu_milliseconds: int | None = Field(
        None, description="promised time that was lost while its job waited; null: unknown"
    )
    host_cpu_milli_seconds: int | None = Field(
        None, description="processors held, where they or main memory have a price"
    )
    host_memory_mib_seconds: int | None = Field(
        None, description="main memory held, where it or processors have a price"
    )
    energy_milliwatt_hours: int | None = Field(
        None,
        description="measured; null: no card was, or the rows are by job or card",
    )
    measured_card_milliseconds: int | None = Field(
        None, description="of the card time, what was measured; null: nothing was"
    )
    co2e_milligrams: int | None = Field(
        None, description="energy times PUE and grid factor; null: one of them is unknown"
    )


class StartsOut(WireModel):
    """Starts that waiting claims were told since the pool exists, by what came of them."""

    promises_kept: int
    promises_broken: int
    estimates_true: int
    estimates_false: int


class ReportOut(WireModel):
    """The sum of `card_milliseconds` over rows is `capacity_card_milliseconds` exactly; so with
    memory.

    The costs of the rows add up to `total_cost` as printed.
    """

    since_ns: int = Field(
        description="as counted: earlier than asked where the books are kept by the hour or day"
    )
    until_ns: int = Field(description="as counted: never after the ledger's now")
    by: list[str]
    capacity_card_milliseconds: int
    capacity_memory_mib_seconds: int
    rows: list[ReportRow]
    closes: bool
    simulated: bool | None = Field(description="null: some cards are, or there are none")
    currency: str | None = None
    total_cost: str | None = None
    rule: str = Field("", description="how it was counted, in words")
    resolution_seconds: int = Field(1, description="the coarsest the books are kept in this range")
    starts: StartsOut | None = Field(
        None, description="of the whole pool, since it exists; whatever the range is"
    )
    energy_milliwatt_hours: int | None = Field(
        None, description="measured: what the rows add up to; null: no card was measured"
    )
    measured_card_milliseconds: int | None = Field(
        None, description="of the card time, what was measured; null: nothing was"
    )
    co2e_milligrams: int | None = Field(
        None, description="energy times PUE and grid factor; null: one of them is unknown"
    )


class LiveCard(WireModel):
    """A card and what is held of it now; `usage` is what the card says of itself, null is
    unknown."""

    device: str = Field(description="node:index")
    uuid: str
    node: str
    model: str
    simulated: bool
    state: str
    health: str
    memory_bytes: int
    held_milli: int
    held_bytes: int
    shares: int
    usage: UsageOut = Field(default_factory=UsageOut)


class LiveTenant(WireModel):
    tenant: str
    held_milli: int
    held_bytes: int
    jobs: int


class LiveJob(WireModel):
    """A job that holds a share, with its latest sample; null is unknown."""

    job: str
    name: str
    tenant: str
    user: str
    devices: list[str]
    held_milli: int = Field(description="over all its cards")
    held_bytes: int
    since_ns: int
    gpu_percent: float | None = Field(
        None, description="of one card, between its two latest samples"
    )
    cpu_percent: float | None = Field(
        None, description="of one processor, between its two latest samples"
    )
    gpu_memory_bytes: int | None = None
    rss_bytes: int | None = None
    gpu_milliseconds: int | None = None
    cpu_milliseconds: int | None = None
    sampled_ns: int | None = None
    share_percent: float | None = Field(
        None, description="of its own share, which is 100; more: borrowed"
    )
    reserved_bytes: int | None = None
    unaccounted_bytes: int | None = Field(
        None, description="what its cards say beyond the fence's ledger"
    )
    wait_milliseconds: int | None = None
    throttled_milliseconds: int | None = None
    launches: int | None = None
    refusals: int | None = None


class LiveOut(WireModel):
    """What is held and used now, in the caller's scope. Lists are cut at `limit`; `jobs_total`
    counts all."""

    at_ns: int
    cards: list[LiveCard]
    cards_total: int
    tenants: list[LiveTenant]
    jobs: list[LiveJob]
    jobs_total: int
