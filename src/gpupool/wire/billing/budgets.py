"""Budgets as admins set them, and where they stand."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

Percent = Annotated[int, Field(ge=1, le=1000)]


class BudgetIn(WireModel):
    """What a tenant, a project or a user of it may spend in each period."""

    tenant: Name
    project: Name | None = Field(None, description="only this project of the tenant")
    user: Name | None = Field(None, description="only this user of the tenant")
    period: Literal["month", "quarter"] = "month"
    timezone: Annotated[str, Field(min_length=1, max_length=63)] = "UTC"
    unit: Literal["money", "gpu-hours"] = "money"
    amount: int = Field(
        ge=1, le=10**18, description="micro-units of money, or milliseconds of a whole card"
    )
    warn_percents: Annotated[list[Percent], Field(max_length=10)] = Field(
        default_factory=lambda: [50, 80], description="an event at each"
    )
    hold_percent: Percent = Field(100, description="from here on no job starts")
    preempt_percent: Percent = Field(
        110, description="from here on, and after the grace, preemptible jobs end"
    )
    grace_seconds: int = Field(86_400, ge=0, le=31_622_400)
    on_limit: Literal["warn", "hold", "preempt"] = Field(
        "hold", description="warn: events alone; hold: no job starts; preempt: some end, too"
    )
    force: bool = Field(False, description="also where more is spent already")


class SpendingForecastOut(WireModel):
    """The end of the period as the last days went, in the unit of the budget."""

    end: int
    low: int
    high: int
    runs_out_ns: int | None = Field(description="null: not in this period")


class ThresholdOut(WireModel):
    """One threshold of a budget, and when it was reached in this period."""

    percent: int
    effect: Literal["warn", "hold", "preempt"]
    reached_ns: int | None


class BudgetOut(WireModel):
    """A budget and where it stands in the period of now."""

    id: str
    tenant: str
    project: str | None
    user: str | None
    period: str
    timezone: str
    unit: str
    currency: str
    amount: int
    warn_percents: list[int]
    hold_percent: int
    preempt_percent: int
    grace_seconds: int
    on_limit: str
    generation: int
    period_name: str = Field(description="2026-11 or 2026-Q4")
    period_start_ns: int
    period_end_ns: int
    spent: int = Field(description="until now, running shares included")
    spent_percent: int
    on_hold: bool = Field(description="whether no job of it may start now")
    thresholds: list[ThresholdOut]
    forecast: SpendingForecastOut | None = Field(description="null: no whole day has passed yet")
