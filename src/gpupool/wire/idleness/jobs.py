"""Idle jobs, keeps, and what idle policies give back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import WireModel
from gpupool.wire.idleness.policies import MOST_SECONDS, IdleActName, JobKindName


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
    left_out: int | None = Field(
        None,
        ge=0,
        description="newer steps that are in no row, because one report sums no more; null: not known",
    )
