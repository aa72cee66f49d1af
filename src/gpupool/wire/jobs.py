"""Jobs: submitting one, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from gpupool.model.launch import (
    check_command,
    check_directory,
    check_environment,
    check_limit,
    check_size,
)
from gpupool.wire.common import BIG, Name, Wire
from gpupool.wire.fleet import ProcessUse

Sharing = Literal["fixed", "burst", "best-effort"]
Text = Annotated[str, Field(max_length=131072)]
StartText = Annotated[
    str | None, Field(description="when it starts, for people: `by` a time is a promise, `about` one an estimate")
]
StartAt = Annotated[int | None, Field(description="when it will start, as far as is known; null: not known")]
StartPromised = Annotated[bool, Field(description="it starts by then, whatever comes later; else: an estimate")]
StartChance = Annotated[
    int | None, Field(description="of 100 such estimates so many came true; null: a promise, or too little is known")
]


class WithinIn(Wire):
    """How near together: the name of a level (`nvlink`, `numa`, …, `node`, or a level of the pool's nodes)."""

    required: Name | None = None
    preferred: Name | None = None


class ShapeIn(Wire):
    """Per card; `count` cards on one node. Memory null: the same part of it as of the compute."""

    gpu_milli: int = Field(0, ge=-BIG, le=BIG, description="thousandths of one card's compute; 0 with a profile")
    memory_bytes: int | None = Field(None, ge=-BIG, le=BIG)
    profile: str | None = Field(None, max_length=63, description="a partition on each card: 1g.18gb, or 1g")
    memory_typed: str | None = Field(None, max_length=32, description="as the user wrote it, for refusals")
    count: int = Field(1, ge=-BIG, le=BIG)
    model: str | None = Field(None, max_length=63)
    labels: dict[Name, Annotated[str, Field(max_length=255)]] = Field(default_factory=dict, max_length=32)
    sharing: Sharing = "fixed"
    cpu_milli: int = Field(0, ge=-BIG, le=BIG, description="thousandths of processors of the node, for all its cards")
    host_bytes: int = Field(0, ge=-BIG, le=BIG, description="main memory of the node, for all its cards")
    within: WithinIn | None = None


class LaunchIn(Wire):
    """The command and its surroundings, exactly as the caller has them."""

    argv: list[Text] = Field(min_length=1, max_length=4096)
    cwd: Annotated[str, Field(max_length=4096)] = "/"
    env: dict[Annotated[str, Field(min_length=1, max_length=4096)], Text] = Field(default_factory=dict, max_length=8192)
    umask: int = Field(0o022, ge=0, le=0o777)
    limits: dict[Annotated[str, Field(max_length=32)], tuple[int, int]] = Field(
        default_factory=dict,
        max_length=32,
        description="name of setrlimit(2) in lower case, as nofile, to (soft, hard); -1 is no limit",
    )

    @field_validator("argv")
    @classmethod
    def _argv_can_be_passed_on(cls, argv: list[str]) -> list[str]:
        check_command(argv)
        return argv

    @field_validator("cwd")
    @classmethod
    def _cwd_can_be_entered(cls, cwd: str) -> str:
        check_directory(cwd)
        return cwd

    @field_validator("env")
    @classmethod
    def _env_can_be_passed_on(cls, env: dict[str, str]) -> dict[str, str]:
        check_environment(env)
        return env

    @field_validator("limits")
    @classmethod
    def _limits_can_be_set(cls, limits: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        for name, (soft, hard) in limits.items():
            check_limit(name, soft, hard)
        return limits

    @model_validator(mode="after")
    def _fits_one_description(self) -> Self:
        check_size(self.argv, self.env, self.cwd)
        return self


class RoleIn(Wire):
    """`count` members of one shape and command; null: the job's own."""

    name: Name
    count: int = Field(ge=1, le=10_000)
    minimum: int | None = Field(None, ge=1, le=10_000, description="that many start together; null: all")
    launcher: bool = Field(False, description="its command starts when the other roles run")
    shape: ShapeIn | None = None
    argv: list[Text] | None = Field(None, min_length=1, max_length=4096)

    @field_validator("argv")
    @classmethod
    def _argv_can_be_passed_on(cls, argv: list[str] | None) -> list[str] | None:
        check_command(argv or ())
        return argv


class GroupIn(Wire):
    """Roles and groups that belong together, at most so far apart."""

    name: Name
    within: WithinIn | None = None
    parts: list[RoleIn | GroupIn] = Field(min_length=1, max_length=1000)

    def roles(self) -> Iterator[RoleIn]:
        """Every role in it, in order."""
        for part in self.parts:
            if isinstance(part, RoleIn):
                yield part
            else:
                yield from part.roles()


class JobIn(Wire):
    shape: ShapeIn
    launch: LaunchIn
    name: str | None = Field(None, max_length=200)
    tenant: str | None = Field(None, max_length=63, description="another tenant: admins only")
    project: str | None = Field(None, max_length=63)
    priority: str | int = 0
    max_seconds: int | None = Field(None, ge=1, le=10 * 366 * 86400)
    array: int | None = Field(None, ge=1, le=1_000_000, description="that many jobs of the same kind")
    attached: bool = Field(False, description="the client brings its terminal and must keep its lease")
    wait: bool = Field(True, description="false: refuse instead of waiting for room")
    fence: bool = True
    preemptible: bool = Field(False, description="may be sent back to wait for claims of higher priority")
    requeue: bool = Field(False, description="starts again when its card, node or supervisor is lost")
    reservation: Name | None = Field(None, description="may also use what that reservation holds")
    gang: GroupIn | None = Field(None, description="jobs NAME.0, NAME.1, … that start together or not at all")

    @model_validator(mode="after")
    def _each_role_fits_one_description(self) -> Self:
        for role in self.gang.roles() if self.gang else ():
            check_size(role.argv or (), self.launch.env, self.launch.cwd)
        return self


class SeatOut(Wire):
    device: str = Field(description="node:index")
    uuid: str
    model: str
    gpu_milli: int
    memory_bytes: int
    profile: str | None = Field(None, description="of a partition")
    start: int | None = Field(None, description="of a partition: the first of its units on the card")


class NumaPartOut(Wire):
    """What a job has of one NUMA node of its node."""

    numa: int
    cpu_milli: int
    host_bytes: int


class JobUse(Wire):
    """What a job that runs uses, by its latest sample; null is unknown. Times and counts since it began."""

    sampled_ns: int
    gpu_percent: float | None = Field(None, description="of one card, between the two latest samples")
    share_percent: float | None = Field(None, description="of its own share, which is 100; more: borrowed")
    cpu_percent: float | None = Field(None, description="of one processor, between the two latest samples")
    memory_percent: float | None = Field(None, description="of its own memory")
    memory_bytes: int | None = None
    reserved_bytes: int | None = None
    unaccounted_bytes: int | None = Field(None, description="what its cards say beyond the fence's ledger")
    gpu_milliseconds: int | None = None
    wait_milliseconds: int | None = None
    throttled_milliseconds: int | None = None
    launches: int | None = None
    refusals: int | None = None
    processes: list[ProcessUse] = Field(default_factory=list, description="where one job is asked for")


class JobOut(Wire):
    """One job; or, where `jobs` is more than 1, all jobs of an array that have not been started yet."""

    id: str = Field(description="of a member of an array that has not been started: the array's id and its index")
    name: str
    jobs: int = Field(1, description="that many jobs: the members of an array that still wait are one line")
    state: Literal["pending", "starting", "running", "done", "failed", "stopped", "lost"]
    reason: str = ""
    tenant: str
    project: str
    user: str
    gpu_milli: int = Field(description="per card")
    memory_bytes: int | None = Field(description="per card, as granted; as asked while it waits; null: in proportion")
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
    fence: str = Field("none", description="what really stops the job: none, advisory, soft or hard")
    fence_why: str = Field("", description="why it is no better than that")
    simulated: bool | None = None
    attached: bool = False
    attach_socket: str | None = Field(None, description="where an attached client brings its terminal")
    command: list[str] = Field(default_factory=list)
    private: bool = Field(False, description="its command, terminal, output and processes are not for this caller")
    array: str | None = Field(None, description="of an array or of a gang: its name")
    array_index: int | None = None
    cpu_milli: int = Field(0, description="thousandths of processors of its node")
    host_bytes: int = Field(0, description="main memory of its node")
    numa: list[NumaPartOut] = Field(default_factory=list, description="of which NUMA nodes it has them; empty: unknown")
    within: WithinIn | None = None
    preemptible: bool = False
    requeue: bool = False
    reservation: str | None = None
    profile: str | None = Field(None, description="of a partition")
    gang: str | None = Field(None, description="the gang's id")
    gang_rank: int | None = None
    gang_role: str | None = None
    saved_ns: int | None = Field(None, description="when it last said that its work is saved")
    preemptions: int = Field(0, description="times it was sent back to wait")
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


class ArrayOut(Wire):
    """An array as a whole. Its members are jobs from the moment when they are placed."""

    id: str
    name: str
    size: int = Field(description="members in all, started or not")
    first: str = Field(description="name of the first member")
    last: str
    states: dict[str, int] = Field(description="state to number of members; states without one are left out")
    not_made: int = Field(description="members that have not been started, nor stopped one by one")
    next: str | None = Field(None, description="id of the member whose turn comes first; null: none waits its turn")
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
    submitted_ns: int
    stopped_ns: int | None = Field(None, description="when it was stopped: no further member is started")
    private: bool = Field(False, description="a colleague's: its command is left out")


class SubmittedOut(Wire):
    """One job, or an array or a gang: `count` jobs named NAME.0, NAME.1, …; `first` is the first of them."""

    first: JobOut
    array: str | None = None
    count: int = 1


class ResizeIn(Wire):
    """The new size per card; what is null stays as it is. Setting a size twice is setting it once."""

    gpu_milli: int | None = Field(None, ge=-BIG, le=BIG, description="thousandths of one card's compute")
    memory_bytes: int | None = Field(None, ge=-BIG, le=BIG)


class ResizedOut(Wire):
    """What became of a resize: the job as it is now, and the size per card that it had before."""

    job: JobOut
    gpu_milli_before: int
    memory_bytes_before: int
    changed: bool = Field(description="false: it had that size already")
    applied: bool = Field(description="its node has put the new limits in force")
    applied_milliseconds: float | None = Field(None, description="from the commit to the node's word; null: not yet")
    used_bytes: int | None = Field(None, description="memory in use when the limits changed; null: unknown")
    note: str = Field("", description="what a person should know about it")


class StopIn(Wire):
    grace_seconds: int | None = Field(None, ge=0, le=86400)


class LogOut(Wire):
    """Bytes of a log in base 64. `offset` counts from the job's first byte, rotated parts included."""

    data: str
    offset: int
    next_offset: int
    dropped_bytes: int = Field(0, description="bytes before `offset` that rotation has taken away")
    ended: bool = Field(description="the job has ended and this was the last of it")


class MemberOut(Wire):
    """One member of a gang, and what it holds now."""

    job: str
    role: str
    rank: int
    state: str
    node: str | None = Field(None, description="null: it holds nothing")
    devices: list[str] = Field(default_factory=list, description="node:index")


class GangStandOut(Wire):
    """Where a gang stands of which at least one member holds cards."""

    id: str
    name: str
    running: int
    members: list[MemberOut] = Field(description="all of them, by rank")


class ExplainOut(Wire):
    job: str
    state: str
    sentence: str
    hints: list[str] = Field(default_factory=list)
    cards: dict[str, int] = Field(default_factory=dict, description="reason to number of cards")
    nodes: dict[str, int] = Field(default_factory=dict, description="reason to number of nodes")
    nearest: str | None = Field(None, description="what would fit now, both numbers")
    holders: list[str] = Field(default_factory=list, description="own tenant's jobs whose end would help")
    ahead: int | None = Field(None, description="jobs that rank before it")
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None
    gang: GangStandOut | None = Field(None, description="of a member: its gang, while any of it holds cards")
    array: ArrayOut | None = Field(None, description="where an array was named: the array, of which `job` is the next")


class QueuedOut(Wire):
    """One job that waits, in the order of its turn; of another tenant several, of which only the number is told."""

    place: int
    count: int = 1
    job: str | None = None
    id: str | None = None
    tenant: str | None = None
    user: str | None = None
    share: str | None = None
    priority: int | None = None
    gang: bool = False
    waited_seconds: int | None = None
    reason: str | None = Field(None, description="the dominant one, in a few words")
    start: StartText = None
    start_ns: StartAt = None
    start_promised: StartPromised = False
    start_chance_pct: StartChance = None
