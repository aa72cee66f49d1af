"""Services: replicas of one job behind one address."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from gpupool.wire.common import Name, WireModel
from gpupool.wire.submissions import JobIn
from gpupool.wire.templates.uses import TemplateUse

#: Replicas of one service at most.
MOST_REPLICAS = 64
LoadKind = Literal["requests", "gpu"]
#: Load of one replica where none is named.
USUAL_TARGETS: dict[str, int] = {"requests": 10, "gpu": 70}


class ServiceRule(WireModel):
    """When replicas start, when they are healthy and when they end."""

    min_replicas: int = Field(1, ge=0, le=MOST_REPLICAS, description="0: none without requests")
    max_replicas: int = Field(1, ge=1, le=MOST_REPLICAS)
    measure: LoadKind = Field(
        "requests",
        description="requests: those under way and waiting, of each replica; gpu: percent of its "
        "own share that a replica uses",
    )
    target: int | None = Field(
        None, ge=1, le=100_000, description="of one replica; null: 10 requests or 70 percent"
    )
    up_seconds: int = Field(
        0, ge=0, le=3600, description="more replicas start once they were needed for so long"
    )
    down_seconds: int = Field(
        300, ge=0, le=86400, description="replicas end once they were not needed for so long"
    )
    check_path: str | None = Field(
        None,
        max_length=2000,
        pattern=r"^/[\x21-\x7e]*$",
        description="answered with 200 to 399 by a healthy replica; null: it accepts connections",
    )
    check_seconds: int = Field(10, ge=1, le=3600, description="between two checks of a replica")
    check_failures: int = Field(
        3, ge=1, le=100, description="failed checks in a row after which a replica is replaced"
    )
    start_seconds: int = Field(
        600, ge=1, le=86400, description="a running replica that is not healthy then is replaced"
    )
    drain_seconds: int = Field(
        120, ge=0, le=86400, description="for the requests under way when a replica ends"
    )
    wait_seconds: int = Field(
        60, ge=0, le=3600, description="a request waits so long for a healthy replica"
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> ServiceRule:
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas is {self.min_replicas} and max_replicas {self.max_replicas}"
            )
        if self.measure == "gpu" and (self.target or 1) > 100:
            raise ValueError(f"target is {self.target}, expected 1 to 100 percent")
        return self

    @property
    def effective_target(self) -> int:
        return USUAL_TARGETS[self.measure] if self.target is None else self.target


class ServiceAdd(WireModel):
    """A service of a job, or of a template's values. `{port}` in the command and its environment is
    the replica's port, which it has in `PORT` too."""

    name: Name
    job: JobIn | None = Field(None, description="one job; null: `template` says what")
    template: Name | None = None
    use: TemplateUse | None = Field(None, description="values of the template")
    port: int | None = Field(
        None,
        ge=1024,
        le=65535,
        description="of the first replica, the next ones have the next; null: the template's, or "
        "8000",
    )
    rule: ServiceRule = Field(default_factory=ServiceRule)

    @model_validator(mode="after")
    def _has_one_source(self) -> ServiceAdd:
        if (self.job is None) == (self.template is None):
            raise ValueError("name either job or template")
        return self


class ServiceChange(WireModel):
    """What is left out stays."""

    rule: dict[str, str | int | None] = Field(
        min_length=1, max_length=32, description="fields of ServiceRule"
    )


class ReplicaEnd(WireModel):
    """A replica that would end, once it has no requests or its time for them is over."""

    number: int
    job: str | None = Field(description="null: it was not submitted")
    requests: int = Field(description="under way in it")


class ServicePlanOut(WireModel):
    """What a change would do at once. Later the load decides, within the rule."""

    rule: ServiceRule = Field(description="as it would be")
    desired_before: int
    desired: int = Field(description="replicas that it would have")
    starts: int = Field(description="replicas that would start")
    ends: list[ReplicaEnd] = Field(description="replicas that would end, the first one first")


class ReplicaOut(WireModel):
    number: int
    state: Literal["wanted", "starting", "ready", "draining", "ended"]
    job: str | None = Field(description="null: it was not submitted")
    job_state: str | None = Field(description="null: there is no job")
    port: int
    requests: int = Field(description="under way in it")
    reason: str = ""
    created_ns: int
    ready_ns: int | None = Field(description="when it was first healthy; null: never")
    ended_ns: int | None = None


class ServiceRecent(WireModel):
    """Requests of the last minutes, from the counters that `/metrics` has too. A WebSocket counts as
    a request when it opens, and has no time."""

    seconds: int = Field(description="of which it tells; less than 300 after a start of the server")
    requests: int = Field(description="that were answered or broke off")
    errors: int = Field(description="of them: status 500 and above, or broken off")
    per_second: float = Field(description="requests by second")
    p50_seconds: float | None = Field(
        description="half of the answers took no longer; an estimate from buckets; null: unknown"
    )
    p95_seconds: float | None = Field(description="as p50_seconds, for 95 of 100")


class ServiceOut(WireModel):
    id: str
    name: str
    tenant: str
    user: str = Field(description="its jobs are of")
    template: str | None = Field(None, description="name and version")
    state: Literal["active", "deleting"]
    explain: str = Field(description="how many replicas are healthy, and why others are not")
    path: str = Field(description="below the server's address; answers with a token of the tenant")
    rule: ServiceRule
    port: int
    desired: int = Field(description="replicas that it should have")
    ready: int = Field(description="replicas that are healthy")
    live: int = Field(description="replicas that are there, and do not end")
    load: float | None = Field(
        description="of the measure, over all replicas; null: it is not known"
    )
    waiting: int = Field(description="requests that wait for a healthy replica")
    recent: ServiceRecent | None = Field(
        None, description="the last 5 minutes; null: no request in them"
    )
    gpu_milli: int | None = Field(
        None,
        description="of all cards together that its replicas hold, those that end too; null: a "
        "server of an earlier release",
    )
    cost_per_hour_micro: int | None = Field(
        None, description="of what they hold, in millionths of `currency`; null: no price"
    )
    currency: str = ""
    command: list[str] = Field(
        default_factory=list, description="empty where it is not for this caller"
    )
    replicas: list[ReplicaOut] = Field(
        default_factory=list, description="where one service is asked for; the newest first"
    )
    scaled_ns: int | None = Field(description="the latest change of desired")
    created_ns: int
