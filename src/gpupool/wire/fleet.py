"""Nodes and devices: what an agent publishes, what it is told to do, what it reports."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpupool.wire.common import BIG, Name, WireModel
from gpupool.wire.containers import ContainerIn
from gpupool.wire.faults.incidents import CardFaultIn
from gpupool.wire.mechanisms import EnforcementWord, PlannedMechanism
from gpupool.wire.modes import ModeReport, ModeSwitchOut, ModeWork
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.networks import PortWork
from gpupool.wire.network.planes import PlaneReading
from gpupool.wire.samples import DeviceSample, JobSample, ProcessOut, UsageOut
from gpupool.wire.suspension import JobWish, ReportState
from gpupool.wire.vm import VmIn

#: Characters of the sentence that says why a fence is no better than it is.
FENCE_WHY = 200


class DeviceIn(WireModel):
    """One card as a probe saw it."""

    uuid: str = Field(min_length=1, max_length=64)
    index: int = Field(ge=0, le=100_000)
    vendor: str = Field(max_length=32)
    product: str = Field(max_length=128)
    model: str = Field(min_length=1, max_length=63)
    memory_bytes: int = Field(ge=1, le=BIG)
    simulated: bool
    health: Literal["ok", "warning", "failed", "unknown"] = "unknown"
    health_reason: str = Field("", max_length=200)
    facts: dict[str, Any] = Field(default_factory=dict)


class NodeIn(WireModel):
    """A node's agent saying what it has; registering again replaces what was said before."""

    devices: list[DeviceIn] = Field(max_length=1024)
    labels: dict[str, str] = Field(default_factory=dict)
    topology: dict[str, Any] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)
    simulated: bool = False
    agent: Name | None = Field(
        None, description="the agent that serves it, when it serves several nodes"
    )
    adopt: bool = Field(
        False, description="new cards of this node start adopted (simulated ones only)"
    )


class NumaOut(WireModel):
    """One NUMA node of a node: its processors as the kernel lists them, and what is free of it."""

    number: int
    cpus: str
    cpu_milli: int
    memory_bytes: int
    free_cpu_milli: int
    free_bytes: int


class NodeOut(WireModel):
    name: str
    ready: bool
    simulated: bool
    labels: dict[str, str]
    facts: dict[str, Any]
    last_seen_ns: int
    devices: int
    generation: int
    cpu_milli: int | None = Field(None, description="thousandths of processors; null: unknown")
    host_bytes: int | None = Field(None, description="main memory; null: unknown")
    free_cpu_milli: int | None = None
    free_host_bytes: int | None = None
    numa: list[NumaOut] = Field(default_factory=list, description="by NUMA node; empty: unknown")
    cluster: bool = Field(
        False, description="a cluster hands its cards out: they are metered here, and nothing else"
    )


class PieceOut(WireModel):
    """A partition that is taken: `size` units of the card from `start` on."""

    profile: str
    start: int
    size: int


class DeviceOut(WireModel):
    name: str = Field(description="node:index")
    uuid: str
    node: str
    index: int
    model: str
    product: str
    memory_bytes: int
    simulated: bool
    state: Literal["observed", "adopted", "draining", "lost"]
    health: Literal["ok", "warning", "failed", "unknown"]
    health_reason: str = ""
    used_milli: int
    used_bytes: int
    free_milli: int
    free_bytes: int
    shares: int
    largest_milli: int = Field(description="largest share placeable now: compute")
    largest_bytes: int = Field(description="largest share placeable now: memory")
    partitions: list[PieceOut] | None = Field(
        None, description="what it is cut into; null: not in partition mode"
    )
    mix: str | None = Field(None, description="the same in words; null: not in partition mode")
    fits: dict[str, int] = Field(
        default_factory=dict,
        description="by profile, how many more could be cut, if only that one is",
    )
    usage: UsageOut = Field(default_factory=UsageOut)
    unmanaged: list[ProcessOut] = Field(default_factory=list)
    facts: dict[str, Any] = Field(default_factory=dict)
    mode: str = Field("plain", description="what the card is set up for")
    switch: ModeSwitchOut | None = Field(
        None, description="its switch to another mode, while one is under way"
    )
    mps_owner: str | None = Field(
        None,
        description="whose MPS clients it serves: what is free on it goes to MPS shares of that "
        "account alone; `another tenant` for a caller of another one; null: it serves none",
    )
    generation: int
    cluster: bool = Field(
        False, description="a cluster hands it out: nothing is placed on it from here"
    )


class WorkSeat(WireModel):
    uuid: str
    index: int
    model: str
    gpu_milli: int
    memory_bytes: int
    profile: str | None = Field(
        None, description="a partition of that profile, with the compute and memory above"
    )
    start: int | None = Field(None, description="memory unit at which the partition begins")


class RunAs(WireModel):
    """The Unix account of a job, taken by the server from the caller's peer credentials or
    binding."""

    uid: int
    gid: int
    groups: list[int]
    name: str


class NumaWork(WireModel):
    """What a job has of one NUMA node, and the processors of that."""

    numa: int
    cpus: str
    cpu_milli: int
    host_bytes: int


class WorkOut(WireModel):
    """An allocation that its node has to do something about, and what should be true of it."""

    allocation: str
    generation: int
    job: str
    job_name: str
    want: JobWish = Field(
        description="resize: it runs, and its node has not said yet that the limits of this generation are in force; "
        "suspend: its memory belongs on the host; resume: on its cards again"
    )
    stop_reason: str = ""
    grace_seconds: int = 10
    tenant: str
    user: str
    sharing: str
    priority: int = 0
    fence: bool = True
    needs: dict[str, str] = Field(
        default_factory=dict, description="isolation, goal and host that its claim demands"
    )
    plan: list[PlannedMechanism] = Field(
        default_factory=list, description="the best first; empty: the agent chooses"
    )
    seats: list[WorkSeat]
    node: str = Field("", description="its node, where it has no card")
    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    limits: dict[str, tuple[int, int]]
    run_as: RunAs | None
    attached: bool
    container: ContainerIn | None = None
    max_seconds: int | None
    cpu_milli: int = Field(
        0, description="processors that its cgroup lets it use, in thousandths; 0: any"
    )
    host_bytes: int = Field(0, description="main memory that its cgroup lets it use; 0: any")
    numa: list[NumaWork] = Field(
        default_factory=list,
        description="the NUMA nodes that its processors and main memory are of; empty: any",
    )
    earlier_runs: int = Field(
        0, description="so often the job ran before and was sent back to wait"
    )
    started: bool = Field(description="the server has already heard that this job started")
    vm: VmIn | None = Field(None, description="the job is this virtual machine")
    network: PortWork | None = Field(None, description="the network that the job joins")
    only_idle: bool = Field(
        False, description="of a suspend: the job has agreed to it for times without work on a card"
    )


class WorkPage(WireModel):
    """News for a node. `cursor` goes into the next `?after=`; `live` lists every held allocation
    when after=0."""

    cursor: int
    modes: list[ModeWork] = Field(default_factory=list, description="cards to be switched")
    network: NetworkEngineWork | None = Field(
        None, description="news of the engine of networks on the agent's machine"
    )
    work: list[WorkOut]
    live: list[str] | None = None


class ReportIn(WireModel):
    """What became of an allocation. `ended` says that nothing of it is left on the node.

    `resized` says that the limits of this generation are in force, and what was in use then;
    `suspended` that the job's memory is on the host, `woken` that a program of it wants to work
    again, `resumed` that it runs on its cards, with the
    `reason` where that is not what was wanted;
    `noticed` that its fence found what `notice` names, and in `reason` what was done about it.
    """

    allocation: str = Field(max_length=16)
    generation: int
    state: ReportState
    # PATH_MAX, with its NUL.
    attach_socket: str | None = Field(None, max_length=4096)
    fence: Literal["none", "advisory", "soft", "hard"] = "none"
    fence_why: str = Field("", max_length=FENCE_WHY)
    mechanism: str = Field("", max_length=32)
    holds: dict[str, EnforcementWord] = Field(
        default_factory=dict,
        max_length=8,
        description="enforcement level by dimension: memory, compute, bandwidth, fault",
    )
    layers: list[str] | None = Field(None, max_length=16, description="added; null: no news")
    refused: dict[str, str] = Field(
        default_factory=dict, max_length=16, description="mechanisms of the plan, and why not"
    )
    notice: str = Field("", max_length=32)
    reason: str = Field("", max_length=400)
    exit_code: int | None = None
    signal: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    cpu_milliseconds: int | None = None
    max_rss_bytes: int | None = None
    pid: int | None = None
    gpu_memory_bytes: int | None = None
    log_bytes: int | None = Field(
        None, ge=0, description="of an end: length of the job's log; null: unknown"
    )


class ReportsIn(WireModel):
    reports: list[ReportIn] = Field(default_factory=list, max_length=1000)
    devices: list[DeviceSample] = Field(default_factory=list, max_length=1024)
    jobs: list[JobSample] = Field(default_factory=list, max_length=10_000)
    modes: list[ModeReport] = Field(default_factory=list, max_length=1024)
    faults: list[CardFaultIn] = Field(default_factory=list, max_length=1000)
    network: NetworkEngineReport | None = None
    planes: PlaneReading | None = None
    ready: bool = Field(False, description="everything this node had is told")


class ReportsOut(WireModel):
    """`stale` names allocations whose generation was not the current one: drop them."""

    stale: list[str] = Field(default_factory=list)


class AdoptIn(WireModel):
    devices: list[Name] = Field(min_length=1, max_length=1024, description="uuids or node:index")
    drain: bool = Field(False, description="release: wait for the jobs on it instead of refusing")
