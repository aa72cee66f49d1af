"""Idle policies: what happens to jobs that do not use their share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

IdleActName = Literal["warn", "shrink", "suspend", "stop"]
JobKindName = Literal["notebook", "gang", "container", "job"]
#: A year: longer idle times are mistakes.
MOST_SECONDS = 366 * 86_400


class IdleStepIn(WireModel):
    """One step of a ladder."""

    act: IdleActName
    after_seconds: int = Field(ge=1, le=MOST_SECONDS, description="idle time when it is due")
    gpu_milli: int | None = Field(
        None, ge=1, le=1000, description="of shrink alone: compute of each card that is left"
    )


class IdlePolicyIn(WireModel):
    """What happens to idle jobs: of the pool, or of one tenant, project or kind of job."""

    tenant: Name | None = Field(None, description="null: all, and for a tenant's admin the own one")
    project: Name | None = None
    kind: JobKindName | None = Field(None, description="null: jobs of every kind")
    mode: Literal["on", "dry-run"] = Field(
        "on", description="dry-run: nothing happens, the report says what would have"
    )
    window_seconds: int = Field(
        300, ge=1, le=MOST_SECONDS, description="a job with activity within it is active"
    )
    steps: Annotated[list[IdleStepIn], Field(min_length=1, max_length=4)]
    keep_seconds: int = Field(7200, ge=0, le=MOST_SECONDS, description="the longest keep")
    keeps_per_day: int = Field(2, ge=0, le=100, description="keeps of one job in 24 hours")


class IdlePolicyOut(WireModel):
    """One idle policy."""

    id: str
    tenant: str | None
    project: str | None
    kind: JobKindName | None
    by_tenant: bool = Field(description="set by an admin of the tenant: it only tightens")
    mode: Literal["on", "dry-run"]
    window_seconds: int
    steps: list[IdleStepIn]
    keep_seconds: int
    keeps_per_day: int
    scope: str = Field(description="which jobs it is about, for people")
    generation: int = Field(description="a change names it")
