"""Samples of use: what cards say of themselves, and what jobs use of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, WireModel


class ProcessOut(WireModel):
    """A process on a card that the pool did not start."""

    pid: int
    user: str | None = None
    name: str
    memory_bytes: int | None = None
    started_ns: int | None = None


class UsageOut(WireModel):
    """What the card says of itself; null is unknown."""

    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    energy_millijoules: int | None = Field(
        None, ge=0, le=BIG, description="the card's own counter, which only grows"
    )
    temperature_celsius: float | None = None
    at_ns: int | None = None


class DeviceSample(WireModel):
    uuid: str
    usage: UsageOut
    unmanaged: list[ProcessOut] = Field(default_factory=list)
    health: Literal["ok", "warning", "failed", "unknown"] | None = None
    health_reason: str = ""


class CardUse(WireModel):
    """What a job, or one process of it, uses of one card by the fence's ledger. Times and counts
    since it began.

    `wait` is time its threads were held back, `throttled` the part of it for which the share was
    used up. `reserved` is memory that counts against the limit, `used` the part of it that the
    driver has given. `borrowed` is GPU time beyond the promise, `denied` promised time that was
    lost while it waited; null is unknown.
    """

    uuid: str = Field(max_length=64)
    used_bytes: int = Field(0, ge=0, le=BIG)
    reserved_bytes: int = Field(0, ge=0, le=BIG)
    gpu_nanoseconds: int = Field(0, ge=0, le=BIG)
    wait_nanoseconds: int = Field(0, ge=0, le=BIG)
    throttled_nanoseconds: int = Field(0, ge=0, le=BIG)
    launches: int = Field(0, ge=0, le=BIG)
    refusals: int = Field(0, ge=0, le=BIG, description="allocations refused for the limit")
    borrowed_nanoseconds: int | None = Field(None, ge=0, le=BIG)
    denied_nanoseconds: int | None = Field(None, ge=0, le=BIG)
    unaccounted_bytes: int | None = Field(
        None,
        ge=-BIG,
        le=BIG,
        description="what the card says beyond the ledger; null: the card does not say",
    )


class ProcessUse(WireModel):
    """One process of a job on its cards."""

    pid: int
    foreign_driver: bool = Field(
        False, description="it had another driver mapped before the fence's"
    )
    cards: list[CardUse] = Field(default_factory=list, max_length=16)


class JobSample(WireModel):
    """What one job used since it started; null is unknown. `cards` is null for a job without a
    fence."""

    job: str
    cpu_milliseconds: int | None = None
    rss_bytes: int | None = None
    gpu_milliseconds: int | None = None
    gpu_memory_bytes: int | None = None
    borrowed_milliseconds: int | None = Field(
        None, description="of the GPU time, what was beyond the promise"
    )
    denied_milliseconds: int | None = Field(
        None, description="promised time lost while the job waited for a card"
    )
    idle_milliseconds: int | None = Field(
        None,
        ge=0,
        le=BIG,
        description="for how long none of its cards had work of it; null: it works, or has no fence",
    )
    terminal_milliseconds: int | None = Field(
        None,
        ge=0,
        le=BIG,
        description="since the last byte into or out of its terminal; null: it has none, or not known",
    )
    cards: list[CardUse] | None = Field(None, max_length=16)
    processes: list[ProcessUse] = Field(default_factory=list, max_length=1024)
