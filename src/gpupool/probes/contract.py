"""What every probe answers, whatever it asks: which cards, how they are joined, what they do, what befell
them.

A probe that cannot work here says so in `available()` and raises nothing. A single reading that fails is
None in the answer. This module knows no vendor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gpupool.model.device import Device, DeviceUsage, Health
from gpupool.model.numa import NumaNode
from gpupool.model.topology import Topology


@dataclass(frozen=True)
class Availability:
    """Whether a probe can work here; `reason` says why not, and what would help, in words for a person."""

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
    numa: tuple[NumaNode, ...] = ()
    """Empty where nothing is known of the host's processors and memory."""


@dataclass(frozen=True)
class HealthEvent:
    """Something that happened to a card. `health` is what the card is after it; `xid` the driver's number,
    if any.

    `uuid` is None when the driver did not say which card.
    """

    uuid: str | None
    health: Health
    reason: str
    xid: int | None = None


@runtime_checkable
class TimesProcesses(Protocol):
    """A probe that can say how much of a card's time a process had."""

    def process_times(self, uuids: Collection[str]) -> Mapping[str, Mapping[int, int]]:
        """Nanoseconds in which something of the process ran since it came, by card and pid."""
        ...


@dataclass(frozen=True)
class EndedProcess:
    """What a card says of a process that has ended. `start_ns`: of CLOCK_BOOTTIME; `gpu_ns`: what it had, at least."""

    pid: int
    start_ns: int
    gpu_ns: int


@dataclass(frozen=True)
class EndedTimes:
    """Of one card. `reason` says why it tells of no ended process, empty where it does."""

    processes: tuple[EndedProcess, ...] = ()
    reason: str = ""


@runtime_checkable
class TimesEnded(Protocol):
    """A probe that can say how much of a card's time a process had that has ended."""

    def ended_times(self, uuids: Collection[str], pids: Collection[int]) -> Mapping[str, EndedTimes]:
        """Of these pids, those that a process of the card had which has ended, by card. A pid that came round again
        may be told of with either of its processes: compare the start.
        """
        ...


@runtime_checkable
class HeldUp(Protocol):
    """A probe whose cards a stopped process can hold up for everybody else."""

    def let_out(self, stopped: Collection[int]) -> None:
        """These processes were just stopped (SIGSTOP): see to it that none of them keeps the cards from others."""
        ...


class Probe(Protocol):
    """One source of truth about the cards of this host. Calls may block for as long as the driver does."""

    @property
    def name(self) -> str: ...

    def available(self) -> Availability:
        """Whether the other calls can work. Cheap enough to ask each time the agent starts."""
        ...

    def scan(self) -> Machine:
        """Every card and how they are joined. Raises `Unavailable` where `available()` is not ok."""
        ...

    def observe(self, uuids: Collection[str]) -> Mapping[str, DeviceUsage]:
        """What these cards do now. A card that is gone is absent from the answer."""
        ...

    def health(self) -> Mapping[str, tuple[Health, str]]:
        """The state of each card and the reason, read anew."""
        ...

    def wait_events(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """Block in the caller's thread until something befalls a card or time is up; then what it was, or
        ().
        """
        ...

    def close(self) -> None:
        """Let go of everything and wake a waiting `wait_events`. The probe is of no use afterwards."""
        ...
