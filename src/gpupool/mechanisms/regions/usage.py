"""Reads the usage file: the counters that an allocation's processes keep of what they use.

The file is its tenant's to write. It is read with pread(2), checked, and believed as a claim only.
It is never mapped here: a tenant may cut it short at any moment, which would be a bus error.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpupool.mechanisms.regions.grants import PromiseSums
from gpupool.mechanisms.regions.layout import (
    LAYOUT,
    MAX_SLOTS,
    OWNER_ENTERING,
    OWNER_PID_MASK,
    OWNER_REAPER,
    OWNER_REAPING,
    SLOT_FOREIGN_DRIVER,
    USAGE_BYTES,
    USAGE_MAGIC,
    CSlot,
    CUsageDevice,
    CUsageHead,
    DamagedRegion,
    RegionHeader,
    check_header,
    read_part,
)


@dataclass(frozen=True)
class FenceDeviceUsage:
    """What one process, or a whole allocation, uses of one card by the fence's counters.

    Bytes and nanoseconds. `gpu_ns`, `wait_ns`, `throttled_ns` (the part of `wait_ns` after the
    share was used up), `launches` and `refusals` only grow. Figures of ended processes are in
    `FenceUsage.departed`.
    """

    committed_bytes: int = 0
    pending_bytes: int = 0
    imported_bytes: int = 0
    gpu_ns: int = 0
    inflight_ns: int = 0
    wait_ns: int = 0
    throttled_ns: int = 0
    launches: int = 0
    refusals: int = 0
    waiters: int = 0
    contexts: int = 0

    @property
    def reserved_bytes(self) -> int:
        """Bytes that count against the limit."""
        return self.committed_bytes + self.pending_bytes

    def __add__(self, other: FenceDeviceUsage) -> FenceDeviceUsage:
        return FenceDeviceUsage(*(getattr(self, name) + getattr(other, name) for name in _COUNTERS))


_COUNTERS: Final = tuple(FenceDeviceUsage.__dataclass_fields__)


@dataclass(frozen=True)
class FenceProcess:
    """One slot in use.

    Attributes:
        pid: in this host's namespace once the arbiter has written it, before that in the process's.
        start_ticks: low 32 bits of its start time (/proc/PID/stat).
        devices: its use, by uuid.
    """

    pid: int
    start_ticks: int
    foreign_driver: bool
    devices: Mapping[str, FenceDeviceUsage]


@dataclass(frozen=True)
class FenceUsage:
    """Content of an allocation's usage file at one moment.

    Attributes:
        charged_ns: the allocation's GPU time since it began, predicted and then corrected, by uuid.
        departed: what ended processes had used, by uuid.
        unknown_lookups: look-ups of driver functions that the fence's table does not know.
        promises: what the arbiter counted of the allocation's promise, by uuid; empty: unknown.
        driver_bytes: memory that the card's driver counts for the job's cgroup, by uuid; empty: it
            does not.
    """

    processes: tuple[FenceProcess, ...] = ()
    charged_ns: Mapping[str, int] = field(default_factory=dict)
    departed: Mapping[str, FenceDeviceUsage] = field(default_factory=dict)
    unknown_lookups: int = 0
    promises: Mapping[str, PromiseSums] = field(default_factory=dict)
    driver_bytes: Mapping[str, int] = field(default_factory=dict)

    def sum_totals(self) -> dict[str, FenceDeviceUsage]:
        """Return the use by uuid of all processes together, ended ones included."""
        totals = {}
        for uuid_ in self.charged_ns:
            total = self.departed[uuid_]
            for process in self.processes:
                if uuid_ in process.devices:
                    total += process.devices[uuid_]
            totals[uuid_] = total
        return totals


def empty_usage() -> bytes:
    """Return the head of `struct fence_usage`; the slots after it are zero."""
    return bytes(CUsageHead(RegionHeader(USAGE_MAGIC, LAYOUT, USAGE_BYTES)))


def read_usage(path: Path, uuids: Sequence[str]) -> FenceUsage:
    """Return what an allocation's processes say they use.

    Args:
        uuids: its cards, in the order of the limits page.

    Raises:
        FileNotFoundError: there is no file.
        DamagedRegion: the file is cut short, or its header is another one.
    """
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        head = CUsageHead.from_buffer_copy(read_part(descriptor, 0, ctypes.sizeof(CUsageHead)))
        check_header(head.header, USAGE_MAGIC, USAGE_BYTES, "usage")
        if os.fstat(descriptor).st_size < USAGE_BYTES or head.high_water > MAX_SLOTS:
            raise DamagedRegion(
                f"usage: {os.fstat(descriptor).st_size} bytes, {head.high_water} slots"
            )
        size = ctypes.sizeof(CSlot)
        slots = read_part(descriptor, ctypes.sizeof(CUsageHead), head.high_water * size)
    used = (CSlot.from_buffer_copy(slots, number * size) for number in range(head.high_water))
    return FenceUsage(
        tuple(_parse_process(slot, uuids) for slot in used if _is_process(slot.owner)),
        {uuid_: one.charged_ns for uuid_, one in zip(uuids, head.device, strict=False)},
        {uuid_: _parse_departed(one) for uuid_, one in zip(uuids, head.device, strict=False)},
        head.unknown_lookups,
    )


def _is_process(owner: int) -> bool:
    """Whether a process has the slot, rather than takes or clears it at this moment."""
    return owner > OWNER_REAPING and not owner & (OWNER_REAPER | OWNER_ENTERING)


def _parse_departed(device: CUsageDevice) -> FenceDeviceUsage:
    return FenceDeviceUsage(
        gpu_ns=device.departed_gpu_ns,
        wait_ns=device.departed_wait_ns,
        throttled_ns=device.departed_throttled_ns,
        launches=device.departed_launches,
        refusals=device.departed_refusals,
    )


def _parse_process(slot: CSlot, uuids: Sequence[str]) -> FenceProcess:
    devices = {}
    for uuid_, one in zip(uuids, slot.device, strict=False):
        devices[uuid_] = FenceDeviceUsage(*(getattr(one, name) for name in _COUNTERS))
    pid = slot.pid_outside or (slot.owner >> 32) & OWNER_PID_MASK
    return FenceProcess(
        pid, slot.owner & 0xFFFFFFFF, bool(slot.flags & SLOT_FOREIGN_DRIVER), devices
    )
