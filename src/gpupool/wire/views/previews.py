"""What a submission would come to: nothing is written by asking."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.capacity import OwnRoom
from gpupool.wire.common import WireModel
from gpupool.wire.jobs import (
    MechanismPlanOut,
    SeatOut,
    StartAt,
    StartChance,
    StartPromised,
    StartText,
)


class PreviewCost(WireModel):
    """By the price list of the pool, in millionths of the currency."""

    currency: str | None
    per_hour_micro: int = Field(description="of all jobs of the submission while they run")
    total_micro: int | None = Field(None, description="until its time limit; null: it has none")


class EvenGangOut(WireModel):
    """Members that have equally many cards."""

    members: int
    count: int = Field(description="cards of each member")


class PreviewOut(MechanismPlanOut):
    """What would become of a submission now."""

    outcome: Literal["fits", "waits", "never"] = Field(
        description="fits: it would start at once; waits: it would be accepted and queued; never: it "
        "would be refused"
    )
    code: str | None = Field(None, description="of `never`: the error of POST /jobs")
    reason: str = Field("", description="of `fits` what decides the place, else why it waits")
    hints: list[str] = Field(default_factory=list, description="what would help")
    nearest: str | None = Field(None, description="what would fit now, both numbers")
    gang: EvenGangOut | None = Field(
        None, description="of more cards than a node has: the gang that has as many"
    )
    share: str = Field(description="of each job: both numbers, for people")
    count: int = Field(1, description="jobs")
    starts_now: int = Field(0, description="that many jobs would start at once")
    on: list[SeatOut] = Field(default_factory=list, description="cards of the first of these jobs")
    on_total: int = Field(0, description="cards of all these jobs")
    ahead: int | None = Field(None, description="jobs that rank before it")
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None
    cost: PreviewCost | None = Field(None, description="null: the pool has no price for it")
    quota: OwnRoom | None = Field(
        None, description="what quotas leave the tenant now, without this submission"
    )
    command: str | None = Field(
        None, description="the same request on the command line; null: a VM or a gang of roles"
    )
    manifest: str = Field(description="the body of the same request as YAML")
