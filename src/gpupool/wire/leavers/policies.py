"""Leaver policies, and the leavers whose jobs they are about."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel

LeaverAct = Literal["stop", "keep", "hand-over"]


class LeaverChoiceIn(WireModel):
    """What becomes of the jobs of a leaver."""

    act: LeaverAct
    keep_seconds: int | None = Field(
        None, ge=60, le=10 * 366 * 86400, description="kept for so long, then stopped"
    )
    until_ns: int | None = Field(None, ge=0, le=BIG, description="kept until then, then stopped")
    heir: Name | None = Field(None, description="the user that gets them")


class LeaverPolicyIn(LeaverChoiceIn):
    """Of a tenant's leavers, or of a provider's. The tenant's policy counts before a provider's."""

    provider: Name | None = Field(None, description="null: any")
    tenant: Name | None = Field(None, description="null: any")


class LeaverPolicyOut(LeaverPolicyIn):
    changed_by: str
    changed_ns: int


class LeaverRowOut(WireModel):
    """A user that a sync or SCIM disabled, and what became of its jobs."""

    user: str
    tenant: str
    provider: str | None
    reason: str
    act: LeaverAct
    until_ns: int | None
    heir: str | None
    state: Literal["open", "done"]
    note: str = Field(description="what is left, or why it is over")
    stopped: int = Field(description="jobs whose end was requested")
    handed: int = Field(description="units that went to the heir")
    made_by: str
    made_ns: int
    ended_ns: int | None
    due_ns: int | None = Field(
        None, description="nothing is done before: its groups may come back; null: at once"
    )
