"""Schedules of jobs and what became of their instants."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpupool.wire.common import Name, WireModel
from gpupool.wire.submissions import JobIn

Overlap = Literal["skip", "queue", "replace"]


class ScheduleIn(WireModel):
    """A job that is submitted at each instant of a cron expression."""

    name: Name
    cron: str = Field(min_length=9, max_length=100, description="five fields: 0 2 * * *")
    time_zone: str = Field("UTC", min_length=1, max_length=64, description="of the tz database")
    overlap: Overlap = Field(
        "skip",
        description="while the job of an earlier instant lives: skip this one, queue it behind, or "
        "replace the earlier",
    )
    deadline_seconds: int = Field(
        3600, ge=60, le=7 * 86400, description="an instant is missed if it is later than that"
    )
    job: JobIn = Field(description="neither attached nor named")


class ScheduleChangeIn(WireModel):
    """A schedule as it is from now on; its name, its history and its jobs stay."""

    cron: str = Field(min_length=9, max_length=100, description="five fields: 0 2 * * *")
    time_zone: str = Field(min_length=1, max_length=64, description="of the tz database")
    overlap: Overlap
    deadline_seconds: int = Field(ge=60, le=7 * 86400)
    job: JobIn | None = Field(None, description="null: as it is; only its owner may change it")


class ScheduleInstantsOut(WireModel):
    """The next instants of a cron expression."""

    instants_ns: list[int]


class ScheduleOut(WireModel):
    id: str
    name: str
    tenant: str
    user: str = Field(description="the jobs are of")
    cron: str
    time_zone: str
    overlap: Overlap
    deadline_seconds: int
    state: Literal["active", "paused"]
    reason: str = Field("", description="why it is paused")
    next_ns: int | None = Field(description="the next instant; null: it is paused")
    last_job: str | None = None
    command: list[str] = Field(
        default_factory=list, description="empty where it is not for this caller"
    )
    job: dict[str, Any] | None = Field(
        None, description="a JobIn, with its environment; for its owner, who asks for it alone"
    )
    created_ns: int


class ScheduleRunOut(WireModel):
    """What became of an instant."""

    due_ns: int
    at_ns: int = Field(description="when it was looked at")
    outcome: Literal["submitted", "skipped", "missed", "refused"]
    job: str | None = None
    text: str = ""
