"""Idle policies, what they do with jobs, and what that gives back."""

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


class IdleJobOut(WireModel):
    """A running job with cards: whether it is idle, and what happens to it."""

    job: str
    name: str
    tenant: str
    project: str
    user: str
    kind: JobKindName
    jobs: int = Field(description="members of the gang that it stands for; 1: it is in none")
    state: Literal["active", "idle", "kept", "unknown"] = Field(
        description="unknown: no fence, or no news of its node; it is never idle then"
    )
    idle_seconds: int | None = Field(description="since its last activity; null: unknown")
    last_ns: int | None = Field(description="its last activity; null: unknown")
    rule: str | None = Field(description="what its policies do, for people; null: none is about it")
    mode: Literal["on", "dry-run"] | None
    policies: list[str]
    act: IdleActName | None = Field(description="the last step that was taken; null: none")
    act_ns: int | None
    skip: str = Field(description="why that step could not be taken; empty: it was")
    next_act: IdleActName | None = Field(description="the next step if it stays idle")
    next_ns: int | None
    keep_until_ns: int | None
    keeps_left: int | None = Field(description="in these 24 hours; null: no rule")
    keep_seconds: int | None = Field(description="the longest keep; null: no rule")
    gpu_milli: int = Field(description="compute that it holds now, of all its cards")
    cards: int
    waits_to_grow: bool = Field(description="it is active and has not got its share back yet")
    cost_per_hour_micro: int | None = Field(description="of what it holds; null: no price")
    currency: str


class IdleKeepIn(WireModel):
    """How long an idle job is to stay."""

    seconds: int | None = Field(
        None, ge=1, le=MOST_SECONDS, description="null: the longest that its rule allows"
    )


class IdleSavingOut(WireModel):
    """What the steps of one kind gave back, or would have."""

    tenant: str
    act: IdleActName
    dry_run: bool
    steps: int
    jobs: int
    card_milliseconds: int | None = Field(description="null: of stops that were done, not known")
    cost_micro: int | None = Field(description="at the prices of each hour; null: no price")


class IdleReportOut(WireModel):
    """What idle policies gave back, or would have, since an instant."""

    since_ns: int
    until_ns: int
    currency: str
    rows: list[IdleSavingOut]
