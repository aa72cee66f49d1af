"""Defines what every probe answers: which cards a host has, how they are joined, used and damaged.

A probe that cannot work here says so in `available()` and raises nothing. A single reading that
fails is None in the answer. Imports no vendor's library.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gpupool.model.device import Device, DeviceHealth, DeviceUsage
from gpupool.model.faults.actions import RecoveryAction
from gpupool.model.numa import NumaNode
from gpupool.model.topology import Topology


@dataclass(frozen=True)
class ProbeAvailability:
    """Whether a probe can work here; `reason` says why not and what would help, for people."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True)
class Machine:
    """One host and its cards, as seen at one moment."""

    name: str
    devices: tuple[Device, ...]
    topology: Topology
    cpu_count: int | None = None
    memory_bytes: int | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    simulated: bool = False
    #: Empty where nothing is known of the host's processors and memory.
    numa: tuple[NumaNode, ...] = ()


@dataclass(frozen=True)
class HealthEvent:
    """Something that happened to a card.

    Attributes:
        uuid: the card; None when the driver did not name it.
        health: state of the card after it.
        xid: the driver's error number, if any.
        recovery: what the driver recommends for the card after it; None is unknown.
    """

    uuid: str | None
    health: DeviceHealth
    reason: str
    xid: int | None = None
    recovery: RecoveryAction | None = None


# The following are optional: callers test for them with `isinstance`.
@runtime_checkable
class ProcessTimeProbe(Protocol):
    """A probe that reports how much of a card's time each process used."""

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Return nanoseconds of GPU time since the process came, by card and pid."""
        ...


@dataclass(frozen=True)
class EndedProcess:
    """A process that has ended, as a card reports it.

    Attributes:
        start_ns: start of the process by CLOCK_BOOTTIME.
        gpu_ns: GPU time that it used at least.
    """

    pid: int
    start_ns: int
    gpu_ns: int


@dataclass(frozen=True)
class EndedTimes:
    """Ended processes of one card; `reason` says why it cannot report any, else it is empty."""

    processes: tuple[EndedProcess, ...] = ()
    reason: str = ""


@runtime_checkable
class EndedTimeProbe(Protocol):
    """A probe that reports how much of a card's time ended processes used."""

    def ended_times(
        self, uuids: Collection[str], pids: Collection[int]
    ) -> Mapping[str, EndedTimes]:
        """Return the ended processes with these pids, by card.

        A reused pid may stand for either of its processes: compare the start.
        """
        ...


@runtime_checkable
class LockReleaseProbe(Protocol):
    """A probe whose cards a stopped process can block for all others."""

    def release_lock(self, stopped: Collection[int]) -> None:
        """Make processes that were just stopped (SIGSTOP) release the lock of their cards."""
        ...


class Probe(Protocol):
    """One source of truth about the cards of this host. Calls block as long as the driver does."""

    @property
    def name(self) -> str: ...

    def available(self) -> ProbeAvailability:
        """Return whether the other calls can work. Cheap enough for each start of the agent."""
        ...

    def scan(self) -> Machine:
        """Return every card and how they are joined.

        Raises:
            ServiceUnavailable: `available()` is not ok.
        """
        ...

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        """Return what these cards do now; a card that is gone is left out."""
        ...

    def health(self) -> Mapping[str, tuple[DeviceHealth, str]]:
        """Return the state of each card and the reason, read anew."""
        ...

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """Block the caller's thread until an event of a card or the timeout; return the events."""
        ...

    def close(self) -> None:
        """Release everything and wake a waiting `wait_events`. The probe cannot be used again."""
        ...
