"""Answers about jobs: their state, seats, use, output and explanation; and requests to change one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpupool.wire.chains.dependencies import DependencyOut
from gpupool.wire.chains.retries import AttemptOut
from gpupool.wire.common import BIG, WireModel
from gpupool.wire.rightsizing.policies import AdvisedShareOut
from gpupool.wire.samples import ProcessUse
from gpupool.wire.submissions import Sharing, WithinIn
from gpupool.wire.suspension import SuspensionOut

StartText = Annotated[
    str | None,
    Field(
        description="when it starts, for people: `by` a time is a promise, `about` one an estimate"
    ),
]
StartAt = Annotated[
    int | None, Field(description="when it will start, as far as is known; null: not known")
]
StartPromised = Annotated[
    bool, Field(description="it starts by then, whatever comes later; else: an estimate")
]
StartChance = Annotated[
    int | None,
    Field(
        description="of 100 such estimates so many came true; null: a promise, or too little is known"
    ),
]


class SeatOut(WireModel):
    device: str = Field(description="node:index")
    uuid: str
    model: str
    gpu_milli: int
    memory_bytes: int
    profile: str | None = Field(None, description="of a partition")
    start: int | None = Field(
        None, description="of a partition: the first of its units on the card"
    )


class NumaPartOut(WireModel):
    """What a job has of one NUMA node of its node."""

    numa: int
    cpu_milli: int
    host_bytes: int


class JobUse(WireModel):
    """What a job that runs uses, by its latest sample; null is unknown. Times and counts since it
    began."""

    sampled_ns: int
    gpu_percent: float | None = Field(
        None, description="of one card, between the two latest samples"
    )
    share_percent: float | None = Field(
        None, description="of its own share, which is 100; more: borrowed"
    )
    cpu_percent: float | None = Field(
        None, description="of one processor, between the two latest samples"
    )
    memory_percent: float | None = Field(None, description="of its own memory")
    memory_bytes: int | None = None
    reserved_bytes: int | None = None
    unaccounted_bytes: int | None = Field(
        None, description="what its cards say beyond the fence's ledger"
    )
    gpu_milliseconds: int | None = None
    wait_milliseconds: int | None = None
    throttled_milliseconds: int | None = None
    launches: int | None = None
    refusals: int | None = None
    processes: list[ProcessUse] = Field(
        default_factory=list, description="where one job is asked for"
    )


class JobOut(WireModel):
    """One job; or, where `jobs` is more than 1, all jobs of an array that were not started yet."""

    id: str = Field(
        description="of a member of an array that has not been started: the array's id and its index"
    )
    name: str
    jobs: int = Field(
        1, description="that many jobs: the members of an array that still wait are one line"
    )
    state: Literal["pending", "starting", "running", "done", "failed", "stopped", "lost"]
    reason: str = ""
    tenant: str
    project: str
    user: str
    gpu_milli: int = Field(description="per card")
    memory_bytes: int | None = Field(
        description="per card, as granted; as asked while it waits; null: in proportion"
    )
    count: int
    model: str | None = None
    sharing: Sharing = "fixed"
    share: str = Field(description="both numbers, for people")
    priority: int = 0
    max_seconds: int | None = None
    node: str | None = None
    device: str | None = Field(None, description="first card, node:index")
    seats: list[SeatOut] = Field(default_factory=list)
    why: str = Field("", description="what decided the placement")
    fence: str = Field("none", description="what really stops it: none, advisory, soft or hard")
    fence_why: str = Field("", description="why it is no better than that")
    mechanism: str | None = Field(None, description="how its cards were divided; null: unknown yet")
    holds: dict[str, str] | None = Field(
        None,
        description="what really stops it, by dimension: memory, compute, bandwidth, fault; "
        "null: its node has not said",
    )
    network: str | None = Field(None, description="that it joins; null: that of its node")
    address: str | None = Field(None, description="its own there; null: none now")
    address6: str | None = Field(None, description="its IPv6 address there; null: none now")
    floating_ip: str | None = Field(None, description="its address outside; null: none now")
    simulated: bool | None = None
    attached: bool = False
    attach_socket: str | None = Field(None, description="where a client brings its terminal")
    command: list[str] = Field(default_factory=list)
    private: bool = Field(
        False, description="its command, terminal, output and processes are not for this caller"
    )
    array: str | None = Field(None, description="of an array or of a gang: its name")
    array_index: int | None = None
    cpu_milli: int = Field(0, description="thousandths of processors of its node")
    host_bytes: int = Field(0, description="main memory of its node")
    numa: list[NumaPartOut] = Field(
        default_factory=list, description="of which NUMA nodes it has them; empty: unknown"
    )
    within: WithinIn | None = None
    preemptible: bool = False
    requeue: bool = False
    reservation: str | None = None
    profile: str | None = Field(None, description="of a partition")
    gang: str | None = Field(None, description="the gang's id")
    gang_rank: int | None = None
    gang_role: str | None = None
    saved_ns: int | None = Field(None, description="when it last said that its work is saved")
    idle_seconds: int | None = Field(None, description="idle time after which it may be suspended")
    advice: AdvisedShareOut | None = Field(None, description="null: no advice policy was about it")
    suspension: SuspensionOut | None = Field(None, description="null: it was not suspended")
    preemptions: int = Field(0, description="times it was sent back to wait")
    attempt: int = Field(1, description="the present or last one")
    retries: int = Field(0, description="starts again so often after a failure")
    retry_ns: int | None = Field(
        None, description="when the next attempt may start; null: it is not awaited"
    )
    attempts: list[AttemptOut] = Field(
        default_factory=list, description="the earlier ones, where one job is asked for"
    )
    after: list[DependencyOut] = Field(
        default_factory=list, description="the ends that it waits for, or waited for"
    )
    generation: int
    submitted_ns: int
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    cpu_milliseconds: int | None = None
    max_rss_bytes: int | None = None
    use: JobUse | None = Field(None, description="null: not sampled, or it does not run")
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None


class ArrayOut(WireModel):
    """An array as a whole. Its members are jobs from the moment when they are placed."""

    id: str
    name: str
    size: int = Field(description="members in all, started or not")
    first: str = Field(description="name of the first member")
    last: str
    states: dict[str, int] = Field(
        description="state to number of members; states without one are left out"
    )
    not_made: int = Field(description="members that have not been started, nor stopped one by one")
    next: str | None = Field(
        None, description="id of the member whose turn comes first; null: none waits its turn"
    )
    reason: str = Field("", description="why the next one waits, or why the array was stopped")
    tenant: str
    project: str
    user: str
    share: str = Field(description="of each member: both numbers, for people")
    gpu_milli: int
    memory_bytes: int | None
    count: int = Field(description="cards of each member")
    model: str | None = None
    priority: int = 0
    max_seconds: int | None = None
    preemptible: bool = False
    requeue: bool = False
    reservation: str | None = None
    command: list[str] = Field(default_factory=list)
    after: list[DependencyOut] = Field(
        default_factory=list, description="the ends that it waits for, or waited for"
    )
    submitted_ns: int
    stopped_ns: int | None = Field(
        None, description="when it was stopped: no further member is started"
    )
    private: bool = Field(False, description="a colleague's: its command is left out")


class SubmittedOut(WireModel):
    """One job, or an array or a gang: `count` jobs named NAME.0, NAME.1, …; `first` is the first of
    them."""

    first: JobOut
    array: str | None = None
    count: int = 1


class ResizeIn(WireModel):
    """The new size per card; what is null stays. Setting a size twice is setting it once."""

    gpu_milli: int | None = Field(
        None, ge=-BIG, le=BIG, description="thousandths of one card's compute"
    )
    memory_bytes: int | None = Field(None, ge=-BIG, le=BIG)


class ResizedOut(WireModel):
    """What became of a resize: the job as it is now, and the size per card that it had before."""

    job: JobOut
    gpu_milli_before: int
    memory_bytes_before: int
    changed: bool = Field(description="false: it had that size already")
    applied: bool = Field(description="its node has put the new limits in force")
    applied_milliseconds: float | None = Field(
        None, description="from the commit to the node's word; null: not yet"
    )
    used_bytes: int | None = Field(
        None, description="memory in use when the limits changed; null: unknown"
    )
    note: str = Field("", description="what a person should know about it")


class StopIn(WireModel):
    grace_seconds: int | None = Field(None, ge=0, le=86400)


class LogOut(WireModel):
    """Bytes of a log in base 64. `offset` counts from the job's first byte, rotated parts
    included."""

    data: str
    offset: int
    next_offset: int
    dropped_bytes: int = Field(0, description="bytes before `offset` that rotation has taken away")
    ended: bool = Field(description="the job has ended and this was the last of it")


class MemberOut(WireModel):
    """One member of a gang, and what it holds now."""

    job: str
    role: str
    rank: int
    state: str
    node: str | None = Field(None, description="null: it holds nothing")
    devices: list[str] = Field(default_factory=list, description="node:index")


class GangStandOut(WireModel):
    """Where a gang stands of which at least one member holds cards."""

    id: str
    name: str
    running: int
    members: list[MemberOut] = Field(description="all of them, by rank")


class RejectedMechanismOut(WireModel):
    """A mechanism that does not serve the claim on these cards."""

    mechanism: str
    reason: str
    model: str
    cards: int = Field(description="cards of this model with the same answer")
    advice: str = Field("", description="options with which it would serve the claim")


class MechanismPlanOut(WireModel):
    """Which mechanism a claim would get on cards that are free, and why no other one."""

    needs: dict[str, str] = Field(
        default_factory=dict, description="isolation, goal and host as asked"
    )
    mechanism: str | None = Field(
        None, description="with its layers, joined by +; null: no card has one now"
    )
    holds: dict[str, str] = Field(
        default_factory=dict, description="enforcement level by dimension"
    )
    mechanism_why: str = ""
    rejected: list[RejectedMechanismOut] = Field(default_factory=list)


class PlannedOut(MechanismPlanOut):
    """A submission that would be accepted."""

    share: str = Field(description="of each job: both numbers, for people")
    count: int = Field(1, description="jobs")


class ExplainOut(MechanismPlanOut):
    job: str
    state: str
    sentence: str
    hints: list[str] = Field(default_factory=list)
    cards: dict[str, int] = Field(default_factory=dict, description="reason to number of cards")
    nodes: dict[str, int] = Field(default_factory=dict, description="reason to number of nodes")
    nearest: str | None = Field(None, description="what would fit now, both numbers")
    holders: list[str] = Field(
        default_factory=list, description="own tenant's jobs whose end would help"
    )
    ahead: int | None = Field(None, description="jobs that rank before it")
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None
    gang: GangStandOut | None = Field(
        None, description="of a member: its gang, while any of it holds cards"
    )
    array: ArrayOut | None = Field(
        None, description="where an array was named: the array, of which `job` is the next"
    )
