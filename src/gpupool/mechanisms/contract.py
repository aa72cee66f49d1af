"""What every way to share a card can do, and the few shapes it speaks in.

All verbs are idempotent: the agent may be killed at any line and will call again. Before a mechanism
changes anything it notes what it is about to do and what was there (`mechanisms.notes`). A call that names
a generation older than the one on record is refused, because pieces of cards are reused and a late release
must not take the next owner's. This module knows no mechanism and no scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gpupool.model.device import Device
from gpupool.model.partition import PartitionProfile


class FenceLevel(StrEnum):
    """What really stops a tenant from taking more than its share.

    NONE: nothing does. ADVISORY: a program that looks away is not stopped. SOFT: unmodified programs are
    stopped, a hostile one is not. HARD: hardware, kernel or hypervisor stop everybody.
    """

    NONE = "none"
    ADVISORY = "advisory"
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True)
class GrantedDevice:
    """One card's part of an allocation, with the card as the probe saw it.

    What a context costs and what allocations are rounded up to, in bytes, where the node knows; else None.
    `profile` is that of a partition.
    """

    device: Device
    gpu_milli: int
    memory_bytes: int
    context_bytes: int | None = None
    granule_bytes: int | None = None
    profile: str | None = None


@dataclass(frozen=True)
class JobSeat:
    """Whose the job is and where it sees things. `base` is the directory of its private mounts; `own_pool`: the agent
    runs as the job's own user, so nothing on disk is out of the job's reach. `container`: it has a root filesystem of
    its own, in which it may be any user, and of the host it sees what is mounted alone. `host`: where the agent, which
    may be in a container itself, sees the host's root; `driver_root`: where it sees the root of the driver's files.
    """

    base: str = "/run/gpupool"
    uid: int = 0
    gid: int = 0
    own_pool: bool = False
    container: bool = False
    host: Path = Path("/")
    driver_root: Path = Path("/")


@dataclass(frozen=True)
class Mount:
    """A directory or file of the host, and the path at which the job alone sees it."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class AllocationView:
    """All that a mechanism needs to know of an allocation. `node_devices` are all cards of this node.

    `fence` is false for a job that asked for none. A share of higher `priority` goes first on a card.
    `machine` is the directory with the simulated cards' file, on a simulated node.
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


@dataclass(frozen=True)
class Prepared:
    """What a job must be started with. `share_dir` is shown to it read-only at the fixed path, `mounts` beside it.

    Where nothing can be mounted, `library_path` goes before the job's own LD_LIBRARY_PATH and `unmounted` into its
    environment, and the fence is advisory at best. `notes` say why the fence is what it is, for people.
    `image_check` is run on the host before a container begins, with its state on standard input (runtime-spec): where
    it ends with anything but 0, the container does not.
    """

    env: Mapping[str, str]
    allow_nodes: tuple[str, ...]
    deny_nodes: tuple[str, ...]
    share_dir: Path
    fence: FenceLevel
    notes: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    library_path: tuple[str, ...] = ()
    unmounted: Mapping[str, str] = field(default_factory=dict)
    image_check: tuple[str, ...] = ()


class Step(StrEnum):
    """How far an allocation's preparation had come when last written down."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    RELEASING = "releasing"


@dataclass(frozen=True)
class Observed:
    """What is there now for one allocation. `problem` is empty when it is what was prepared."""

    allocation: str
    generation: int
    step: Step
    problem: str = ""


class Mechanism(Protocol):
    """One way to share a card. `state_dir` belongs to the agent; the mechanism keeps all it must remember
    there.
    """

    @property
    def name(self) -> str: ...

    def fence_level(self) -> FenceLevel: ...

    def profiles(self, device: Device) -> tuple[PartitionProfile, ...]:
        """The fixed shapes it can cut this card into; none for a mechanism that takes any size."""
        ...

    def refuses(self, view: AllocationView) -> str:
        """Why it cannot serve this allocation, in words for a person; empty when it can. Changes nothing."""
        ...

    def prepare(self, view: AllocationView, state_dir: Path) -> Prepared:
        """Make the allocation usable. Twice is once; after a crash half-way it is finished.

        Raises StaleGeneration when a younger generation is on record, Refused when `refuses` says why.
        """
        ...

    def unprepare(self, allocation: str, generation: int, state_dir: Path) -> None:
        """Put back what was there before. An allocation that is not on record is done already.

        Raises StaleGeneration when a younger generation is on record; then nothing changes.
        """
        ...

    def resize(self, view: AllocationView, state_dir: Path) -> None:
        """Put the sizes of `view`, of a later generation, in force for the job that runs. Twice is once.

        Raises StaleGeneration when a younger generation is on record, NotFound when none is.
        """
        ...

    def held(self, allocation: str, state_dir: Path) -> tuple[FenceLevel, str]:
        """What really stops the job of an allocation on record, and why not more, in words for a person."""
        ...

    def observe(self, state_dir: Path) -> Mapping[str, Observed]:
        """Every allocation this mechanism has on record, and whether its state is still what it made."""
        ...
