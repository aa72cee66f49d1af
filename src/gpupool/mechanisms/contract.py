"""Defines what every mechanism (a way to share a card) can do, and the shapes that it exchanges.

All verbs are idempotent: the agent may be killed at any line and will call again. Before a
mechanism changes anything, it writes down the change and what was there (`mechanisms.notes`). A
call that names a generation older than the one on record is refused: pieces of cards are reused, so
a late release must not take the next owner's. Imports no mechanism and no scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gpupool.model.device import Device
from gpupool.model.enforcement import EnforcementLevels, FenceLevel, spread_level
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.partition import PartitionProfile

__all__ = [
    "AllocationView",
    "EnforcementLevels",
    "FenceLevel",
    "GrantedDevice",
    "HelperProcess",
    "HostKind",
    "HostMount",
    "JobSeat",
    "Layer",
    "Mechanism",
    "NotYet",
    "ObservedAllocation",
    "PciFunction",
    "PreparationStep",
    "PreparedAllocation",
]


@dataclass(frozen=True)
class GrantedDevice:
    """One card's part of an allocation, with the card as the probe saw it.

    Attributes:
        context_bytes: memory of a context; None where the node has not measured it.
        granule_bytes: what allocations are rounded up to; None where it was not measured.
        profile: name of the profile, for a partition.
        start: memory unit at which the partition begins; None where the mechanism may choose.
    """

    device: Device
    gpu_milli: int
    memory_bytes: int
    context_bytes: int | None = None
    granule_bytes: int | None = None
    profile: str | None = None
    start: int | None = None


@dataclass(frozen=True)
class JobSeat:
    """The user of a job and its view of the host's files.

    Attributes:
        base: directory of the job's private mounts, as the job sees it.
        own_pool: the agent runs as the job's user, so the job can change every file of its share.
        container: the job has a root filesystem of its own, in which it may be any user, and sees
            only what is mounted of the host.
        host: where the agent, which may be in a container itself, sees the host's root.
        driver_root: where the agent sees the root of the driver's files.
    """

    base: str = "/run/gpupool"
    uid: int = 0
    gid: int = 0
    own_pool: bool = False
    container: bool = False
    host: Path = Path("/")
    driver_root: Path = Path("/")


@dataclass(frozen=True)
class HostMount:
    """A directory or file of the host, and the path at which the job alone sees it."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class AllocationView:
    """All that a mechanism needs to know of an allocation.

    Attributes:
        node_devices: all cards of this node.
        fence: false for a job that asked for no fence.
        priority: a share of higher priority goes first on a card.
        machine: directory with the simulated cards' file, on a simulated node.
        host: what the allocation is handed to.
        cgroups: the job's own cgroups, which exist before `prepare` where a layer needs them.
        shows_cgroups: a container sees its cgroups by the paths that the host has for them.
    """

    pool: str
    allocation: str
    generation: int
    job: str
    tenant: str
    sharing: str
    granted: tuple[GrantedDevice, ...]
    node_devices: tuple[Device, ...]
    seat: JobSeat = JobSeat()
    fence: bool = True
    priority: int = 0
    machine: Path | None = None
    host: HostKind = HostKind.PROCESS
    cgroups: tuple[str, ...] = ()
    shows_cgroups: bool = False


@dataclass(frozen=True)
class PciFunction:
    """A PCI function that a VM takes over.

    Attributes:
        address: `0000:01:00.0`.
        iommu_group: number of its group; None where the kernel has no IOMMU.
        driver: the VFIO driver that has it now: `vfio-pci` or a variant of it.
        bar_bytes: sizes of its memory BARs.
    """

    address: str
    iommu_group: int | None
    driver: str
    bar_bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class HelperProcess:
    """A process that an allocation needs beside the job, such as an MPS daemon.

    It runs under a supervisor of its own, so it survives agent and server and is found again.
    Allocations that name the same helper share it; it ends with the last of them, before that one
    is unprepared.

    Attributes:
        name: unique on the node; a plain file name.
        uid: account that it runs as; None is the agent's.
        network_namespace: path of the namespace that it enters; None is the agent's.
        restarts: whether it is restarted if it has ended. False where its mechanism must first
            see to what the ended one left; then the start of the job fails.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None
    gid: int | None = None
    network_namespace: str | None = None
    restarts: bool = True


@dataclass(frozen=True)
class NotYet:
    """The answer of `prepare` while a slow step runs in a process of its own.

    Attributes:
        reason: what the allocation waits for, for people.
        again_in_seconds: when to call `prepare` again.
        helpers: processes that must run before `prepare` can go on. The agent starts those that do
            not run.
    """

    reason: str
    again_in_seconds: float
    helpers: tuple[HelperProcess, ...] = ()


@dataclass(frozen=True)
class PreparedAllocation:
    """What a job must be started with.

    Attributes:
        share_dir: directory shown to the job read-only at the fixed path, `mounts` beside it.
        notes: why the fence is what it is, for people.
        library_path: directories before the job's own LD_LIBRARY_PATH where nothing can be mounted;
            the fence is advisory at best then.
        unmounted: environment of the job where nothing can be mounted.
        image_check: command that the runtime runs on the host before a container starts, with the
            container's state on standard input (OCI runtime-spec). The container starts only if it
            succeeds.
        cgroup_report: command of the same kind that tells the agent the container's cgroups.
        levels: the enforcement level of each dimension; None where the mechanism knows only `fence`.
        pci: functions that a VM takes over.
        mediated_devices: uuids of mediated devices for a VM.
        network_namespace: path of the namespace that the job enters.
        helpers: processes that the allocation needs beside the job.
    """

    env: Mapping[str, str]
    allow_nodes: tuple[str, ...]
    deny_nodes: tuple[str, ...]
    share_dir: Path
    fence: FenceLevel
    notes: tuple[str, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    library_path: tuple[str, ...] = ()
    unmounted: Mapping[str, str] = field(default_factory=dict)
    image_check: tuple[str, ...] = ()
    cgroup_report: tuple[str, ...] = ()
    levels: EnforcementLevels | None = None
    pci: tuple[PciFunction, ...] = ()
    mediated_devices: tuple[str, ...] = ()
    network_namespace: str | None = None
    helpers: tuple[HelperProcess, ...] = ()

    @property
    def enforcement(self) -> EnforcementLevels:
        """The level of each dimension, also of a mechanism that knows only one word."""
        return self.levels if self.levels is not None else spread_level(self.fence)


class PreparationStep(StrEnum):
    """How far the preparation of an allocation had come when it was last written down."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    RELEASING = "releasing"


@dataclass(frozen=True)
class ObservedAllocation:
    """State of one allocation on this node; `problem` is empty when it is what was prepared."""

    allocation: str
    generation: int
    step: PreparationStep
    problem: str = ""


class Mechanism(Protocol):
    """One way to share a card.

    `state_dir` belongs to the agent. The mechanism keeps all that it must remember there.
    """

    @property
    def name(self) -> str: ...

    def fence_level(self) -> FenceLevel: ...

    def list_profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        """Return the profiles it can cut this card into; none where it serves any size."""
        ...

    def explain_refusal(self, view: AllocationView) -> str:
        """Return why it cannot serve this allocation, for people; empty when it can.

        Changes nothing.
        """
        ...

    def prepare(self, view: AllocationView, state_dir: Path) -> PreparedAllocation | NotYet:
        """Make the allocation usable. Idempotent; finishes what a crash left half-way.

        Never blocks for a slow step: it starts that in a process of its own (`slow_step`) and
        answers `NotYet` until the process has ended.

        Raises:
            StaleGeneration: a younger generation is on record.
            RequestRejection: `explain_refusal` gives a reason.
        """
        ...

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Restore what was there before. Does nothing for an allocation that is not on record.

        Raises StaleGeneration when a younger generation is on record; then nothing changes.
        """
        ...

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Apply the sizes of `view`, of a later generation, to the running job. Idempotent.

        Raises StaleGeneration when a younger generation is on record, NotFound when none is.
        """
        ...

    def read_enforcement(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        """Return the enforcement level of an allocation on record, and why it is not higher."""
        ...

    def read_levels(self, allocation: str, state_dir: Path) -> EnforcementLevels:
        """Return the level of each dimension of an allocation on record."""
        ...

    def observe(self, state_dir: Path) -> Mapping[str, ObservedAllocation]:
        """Return each allocation on record, and whether its state is still what was prepared."""
        ...


class Layer(Protocol):
    """Something that is added to an allocation which a mechanism has prepared.

    A layer keeps its record in the allocation's directory, in `note-<name>.json`, or with the card
    that it changes, and is undone before the mechanism. All verbs are idempotent.
    """

    @property
    def name(self) -> str: ...

    def explain_absence(self, view: AllocationView) -> str:
        """Return why it adds nothing to this allocation; empty when it does. Changes nothing."""
        ...

    def prepare(
        self, view: AllocationView, prepared: PreparedAllocation, state_dir: Path
    ) -> PreparedAllocation | NotYet:
        """Add to what is prepared so far, and return the sum."""
        ...

    def is_recorded(self, allocation: str, state_dir: Path) -> bool:
        """Whether it was added to an allocation."""
        ...

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Apply the sizes of `view` to the running job. Does nothing where it was not added."""
        ...

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Restore what was there before. Does nothing where it was not added."""
        ...

    def read_enforcement(
        self, allocation: str, levels: EnforcementLevels, state_dir: Path
    ) -> EnforcementLevels:
        """Return the levels with what this layer adds to them."""
        ...
