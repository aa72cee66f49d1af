"""Handovers: what a user owns goes to another user."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel

UnitKind = Literal["job", "array", "gang", "schedule", "reservation"]
UnitName = Annotated[str, Field(min_length=1, max_length=80)]


class HandoverIn(WireModel):
    """The new owner, and what it gets."""

    to: Name
    only: list[UnitName] | None = Field(
        None, min_length=1, max_length=1000, description="ids or names; null: all that can be given"
    )
    dry_run: bool = Field(False, description="only say what would be handed over")


class HandoverUnitOut(WireModel):
    """A job, a whole array or gang, a schedule or a reservation."""

    kind: UnitKind
    id: str
    name: str
    tenant: str
    project: str | None
    state: str
    jobs: int = Field(description="live ones, with members of arrays that have no row yet")
    account: str | None = Field(
        description="Unix account that it runs as, before and after; null: the agent's own"
    )
    refusal: str | None = Field(description="why it stays; null: it is handed over")


class HandoverOut(WireModel):
    user: str
    to: str
    dry_run: bool
    units: list[HandoverUnitOut]
    handed: int = Field(description="units that belong to the new owner now, or would")
    jobs: int = Field(description="jobs in them")
