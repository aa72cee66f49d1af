"""Usage reports that close."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import Wire

Kind = Literal["tenant", "idle", "overhead", "unmanaged"]


class ReportRow(Wire):
    """`tenant` rows say who; the other kinds say what became of the rest."""

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
    delivered_gpu_milliseconds: int | None = Field(None, description="GPU time measured; null: unknown")
    cpu_milliseconds: int | None = None
    cost: str | None = Field(None, description="decimal, when prices are given")


class ReportOut(Wire):
    """The sum of `card_milliseconds` over rows is `capacity_card_milliseconds` exactly; so with memory."""

    since_ns: int
    until_ns: int
    by: list[str]
    capacity_card_milliseconds: int
    capacity_memory_mib_seconds: int
    rows: list[ReportRow]
    closes: bool
    simulated: bool | None
    currency: str | None = None
    rule: str = ""
