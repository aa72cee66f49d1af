"""Describes one physical device as a probe read it, and what it was doing at that moment.

Facts only. Must not know how they are read, stored or shown, nor which job uses the device.
A number that could not be read is None, never 0: a card whose load is unknown must not look idle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gpupool.model.partition import Partition, PartitionProfile

#: Label of a device: the number by which the maker's runtime counts it, where that takes no uuid.
#: Several with commas for a card that the runtime sees as several.
RUNTIME_ID: Final = "runtime-id"


class DeviceHealth(StrEnum):
    """Whether a card can be trusted with work; UNKNOWN when nothing could be read."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


class CardMode(StrEnum):
    """What a card is set up for; in any mode but PLAIN and its partitions it serves that alone."""

    PLAIN = "plain"
    MIG = "mig"
    MPS = "mps"
    PASSTHROUGH = "passthrough"
    SRIOV = "sriov"
    VGPU = "vgpu"
    # AMD's compute partitions, in 2, 3, 4 and as many as the card has dies; one is PLAIN.
    DPX = "dpx"
    TPX = "tpx"
    QPX = "qpx"
    CPX = "cpx"
    # AMD's memory partitions; one is PLAIN.
    NPS2 = "nps2"
    NPS4 = "nps4"
    NPS8 = "nps8"


#: Modes in which a card is cut into agents that a job gets all together, whole or in shares.
COMPUTE_PARTITION_MODES = (CardMode.DPX, CardMode.TPX, CardMode.QPX, CardMode.CPX)
#: Modes in which a card's memory is cut. They hold for all cards of a node.
MEMORY_PARTITION_MODES = (CardMode.NPS2, CardMode.NPS4, CardMode.NPS8)


class ModeNeed(StrEnum):
    """What a switch of the mode needs; each one includes those before it."""

    NOTHING = "nothing"
    IDLE_CARD = "idle-card"
    IDLE_BOARD = "idle-board"
    RESET = "reset"
    RELOAD = "reload"
    REBOOT = "reboot"


@dataclass(frozen=True)
class ModeOffer:
    """A mode that a card could be switched to.

    Attributes:
        seconds: how long the switch takes once the card is free; None is unknown.
        blocked_by: why the card cannot be switched to it, for people; empty when it can.
    """

    mode: CardMode
    needs: ModeNeed = ModeNeed.NOTHING
    seconds: float | None = None
    blocked_by: str = ""


_XID = re.compile(r"\(XID (\d{1,4})\)")


def find_xid(health_reason: str) -> int | None:
    """Find the driver's error number in the reason of a card's health; probes write it in brackets.

    >>> find_xid("the card has fallen off the bus (XID 79)"), find_xid("")
    (79, None)
    """
    found = _XID.search(health_reason)
    return None if found is None else int(found.group(1))


class DeviceState(StrEnum):
    """What the pool does with a card: sees it, hands it out, empties it, or misses it."""

    OBSERVED = "observed"
    ADOPTED = "adopted"
    DRAINING = "draining"
    LOST = "lost"


# A card that comes back after being lost returns to the state it had, so LOST leads to all others.
TRANSITIONS: Mapping[DeviceState, frozenset[DeviceState]] = MappingProxyType(
    {
        DeviceState.OBSERVED: frozenset({DeviceState.ADOPTED, DeviceState.LOST}),
        DeviceState.ADOPTED: frozenset(
            {DeviceState.DRAINING, DeviceState.OBSERVED, DeviceState.LOST}
        ),
        DeviceState.DRAINING: frozenset(
            {DeviceState.ADOPTED, DeviceState.OBSERVED, DeviceState.LOST}
        ),
        DeviceState.LOST: frozenset(
            {DeviceState.OBSERVED, DeviceState.ADOPTED, DeviceState.DRAINING}
        ),
    }
)


def is_device_transition(state: DeviceState, wanted: DeviceState) -> bool:
    """Whether the lifecycle leads from `state` to `wanted` in one step; staying is always allowed.

    >>> is_device_transition(DeviceState.OBSERVED, DeviceState.DRAINING)
    False
    """
    return state == wanted or wanted in TRANSITIONS[state]


@dataclass(frozen=True)
class Device:
    """One device.

    Attributes:
        model: the short name used in claims (H200, A100-40G).
        product: the name that the driver reports.
        partitioned: whether MIG mode is on now; None for a card without such a mode.
        mode: what the card is set up for now.
        modes: what it could be switched to, and what that needs.
    """

    uuid: str
    index: int
    vendor: str
    product: str
    model: str
    memory_bytes: int
    pci_address: str | None = None
    numa_node: int | None = None
    simulated: bool = False
    device_paths: tuple[str, ...] = ()
    health: DeviceHealth = DeviceHealth.UNKNOWN
    health_reason: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    architecture: str | None = None
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    driver_version: str | None = None
    ecc_enabled: bool | None = None
    partitioned: bool | None = None
    profiles: tuple[PartitionProfile, ...] = ()
    partitions: tuple[Partition, ...] = ()
    mode: CardMode = CardMode.PLAIN
    modes: tuple[ModeOffer, ...] = ()


@dataclass(frozen=True)
class DeviceProcess:
    """A process on a device.

    `uid`, `name` and `started_at_ns` are None if the process had ended before they were read.
    """

    pid: int
    uid: int | None = None
    name: str | None = None
    memory_bytes: int | None = None
    #: UTC, since the epoch. The kernel reuses pids: without it a later process with the same number
    #: would be taken for this one.
    started_at_ns: int | None = None


@dataclass(frozen=True)
class DeviceUsage:
    """What a device was doing at one moment.

    None is unknown; `processes` is None where the driver cannot list them.
    """

    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    power_watts: int | None = None
    #: The card's own counter of what it drew: it only grows, and may begin anew with the driver.
    energy_millijoules: int | None = None
    temperature_celsius: int | None = None
    processes: tuple[DeviceProcess, ...] | None = None
