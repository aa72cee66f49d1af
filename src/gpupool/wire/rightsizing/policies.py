"""Advice policies: which jobs may get a smaller share than they ask for, and within which bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel

AdviceModeName = Literal["off", "propose", "apply"]
AdviceTargetName = Literal["new", "running", "both"]
ConfidenceName = Literal["low", "medium", "high"]
#: What `find_pattern` leaves of a name, with `*` and `?`.
FamilyPattern = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[a-z*?][a-z*?-]*$")]


class AdvicePolicyIn(WireModel):
    """What may be done with advice: for the pool, or one tenant, project or kind of family."""

    tenant: Name | None = Field(None, description="null: all, and for a tenant's admin the own one")
    project: Name | None = None
    families: FamilyPattern | None = Field(
        None, description="only families with such a name: train, eval-*; null: all"
    )
    mode: AdviceModeName = Field(
        "propose", description="propose: jobs keep what they ask for and say what they would get"
    )
    target: AdviceTargetName = Field("new", description="new jobs, running ones, or both")
    least_milli: int = Field(
        50, ge=1, le=1000, description="compute of a card below which nothing is cut"
    )
    most_cut_percent: int = Field(
        50, ge=1, le=99, description="of the request that is cut at most, of compute and memory"
    )
    least_bytes: int = Field(
        2**30, ge=1, le=BIG, description="memory of a card below which nothing is cut"
    )
    confidence: ConfidenceName = Field("high", description="advice that is trusted less is left")


class AdvicePolicyOut(WireModel):
    """One advice policy."""

    id: str
    tenant: str | None
    project: str | None
    families: str | None
    by_tenant: bool = Field(description="set by an admin of the tenant: it only tightens")
    mode: AdviceModeName
    target: AdviceTargetName
    least_milli: int
    most_cut_percent: int
    least_bytes: int
    confidence: ConfidenceName
    scope: str = Field(description="which families it is about, for people")


class AdvicePolicyTrialOut(WireModel):
    """What a policy would have done with the measured jobs of a time."""

    since_ns: int
    until_ns: int
    scope: str
    families: int
    jobs: int = Field(description="measured jobs of these families with a share of compute")
    known_jobs: int = Field(description="of them those for which an advice was known")
    changed_jobs: int
    returned_jobs: int = Field(description="changed ones that got back what they asked for")
    paused_families: int = Field(description="times that a family was left alone for a week")
    short_of_memory: int = Field(description="changed jobs that would have met their limit")
    starved_percent: float | None = Field(
        description="of the time of changed jobs; null: none was changed"
    )
    requested_hours: float = Field(description="card-hours of the jobs with known advice")
    saved_hours: float
    saved_percent: float | None


class AdvisedShareOut(WireModel):
    """What an advice policy did with a job's request."""

    state: Literal["applied", "proposed", "exact", "waits", "returned"] = Field(
        description="waits: the share was too small, and there is no room for the requested one yet"
    )
    policy: str | None
    asked_milli: int
    asked_bytes: int | None = Field(description="null: in proportion")
    gpu_milli: int = Field(description="given, or proposed")
    memory_bytes: int | None
    text: str = Field(description="for people")
