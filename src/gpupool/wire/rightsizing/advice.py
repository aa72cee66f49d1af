"""Advice for families of jobs, and how often it would have been too little."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel


class LiveRunOut(WireModel):
    """A running job of a family."""

    job: str
    name: str
    user: str
    gpu_milli: int = Field(description="of each card; 0: no promise")
    memory_bytes: int = Field(description="of each card")
    fixed: str = Field(description="why its share cannot be changed while it runs; empty: it can")
    proposed_milli: int | None = Field(
        None, description="what an advice policy proposes for each card; null: nothing"
    )
    proposed_bytes: int | None = None


class PartitionAdviceOut(WireModel):
    """The smallest partition of the family's model that holds the advice."""

    profile: str
    per_card: int
    gpu_milli: int
    memory_bytes: int


class ModelAdviceOut(WireModel):
    """A cheaper model with enough memory for the advice. Its speed is not compared."""

    model: str
    memory_bytes: int = Field(description="of its cards")
    saved_micro_per_month: int = Field(description="beside the advice on the family's model")


class AdviceOut(WireModel):
    """What the jobs of a family should ask for, per card. Null is unknown."""

    family: str = Field(description="TENANT/PROJECT/USER/PATTERN")
    tenant: str
    project: str
    user: str
    pattern: str = Field(description="what the names of its jobs have in common")
    runs: int
    measured_runs: int
    measured_hours: float
    cards: int | None = Field(description="of the latest measured run")
    model: str | None = Field(description="of the latest measured run")
    profile: str | None = Field(description="that the latest run asked for; null: a share")
    requested_milli: int | None = Field(description="0: the latest run has no promise")
    requested_bytes: int | None
    used_p50_milli: int | None = Field(description="of the busiest card")
    used_p95_milli: int | None
    used_max_milli: int | None
    used_bytes: int | None = Field(description="the most of one card that a run used")
    limited_percent: float | None = Field(description="part of the time at its limit")
    advice: Literal["shrink", "grow", "keep", "unknown"]
    gpu_milli: int | None
    memory_bytes: int | None
    partition: PartitionAdviceOut | None = Field(description="null: the model has none for it")
    models: list[str] = Field(
        description="of the pool, with enough memory, the smallest first; speed is not compared"
    )
    cheaper: ModelAdviceOut | None = Field(
        None, description="the cheapest of these by the price list; null: none, or no price"
    )
    confidence: Literal["high", "medium", "low"] | None
    reason: str = Field(description="why nothing is advised; empty: something is")
    saved_milli: int | None = Field(
        description="cards that it would have freed, on average of the time; negative: more"
    )
    saved_micro_per_month: int | None = Field(description="of 30 days; null: no price")
    currency: str
    live: list[LiveRunOut]


class MethodOut(WireModel):
    """What one method would have given the judged runs."""

    method: Literal["advised", "as-requested", "highest-use"]
    starved_percent: float | None = Field(description="of the time, more was used")
    starved_runs: int = Field(description="for more than a twentieth of their time")
    short_of_memory: int = Field(description="runs that used more memory")
    given_hours: float = Field(description="card-hours")
    saved_hours: float
    saved_percent: float | None


class BacktestOut(WireModel):
    """Every run judged by the runs that had ended before it."""

    since_ns: int
    until_ns: int
    families: int
    judged_runs: int
    unjudged_runs: int = Field(description="measured, with too few runs before them")
    requested_hours: float = Field(description="card-hours of the judged runs")
    methods: list[MethodOut]


class TenantAdviceOut(WireModel):
    """The advice for all families of a tenant together. Null is unknown."""

    tenant: str
    families: int
    advised_families: int = Field(description="of which something is known")
    grow_families: int = Field(description="of them those that ask for too little")
    runs: int
    measured_runs: int
    saved_milli: int | None = Field(description="cards on average of the time; negative: more")
    saved_micro_per_month: int | None = Field(description="of the families with a price")
    currency: str


class CardMixOut(WireModel):
    """A number of cards that are cut alike."""

    mix: str
    cards: int


class LayoutAdviceOut(WireModel):
    """How the cards of a model with MIG would be cut for what its families need."""

    model: str
    cards: int = Field(description="of the pool that can be cut")
    families: int = Field(description="whose advice a partition holds")
    unfit_families: int = Field(description="with advice that no partition of the model holds")
    demand: dict[str, int] = Field(description="the most at one time, by profile")
    mixes: list[CardMixOut]
    cards_needed: int
    missing: dict[str, int] = Field(description="what no card is left for, by profile")
    exact: bool = Field(description="false: a better plan may exist")
