"""Describes the layouts of the files of a fenced allocation, and reads and creates such files.

The layouts are those of `native/include/gpupool/region.h`; a test compares every offset with
what a C compiler makes of it. Knows no mechanism and no process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpupool.base.durable import open_replacement

#: Version of all three layouts; the fence refuses another one.
LAYOUT: Final = 1
LIMITS_MAGIC: Final = int.from_bytes(b"GPPLIMS1", "little")
GRANTS_MAGIC: Final = int.from_bytes(b"GPPGRNT1", "little")
USAGE_MAGIC: Final = int.from_bytes(b"GPPPUSG1", "little")
MAX_DEVICES: Final = 16
MAX_SLOTS: Final = 1024
FINE_WORDS: Final = 8192
COARSE_WORDS: Final = 8192
#: Of a name on the limits page, without the zero at its end.
NAME_BYTES: Final = 63

# Files below the job's base directory, as the fence opens them.
LIMITS_FILE: Final = "share/limits"
GRANTS_FILE: Final = "share/grants"
DEVICES_FILE: Final = "share/devices"
USAGE_FILE: Final = "usage/region"
DOORBELL_FILE: Final = "usage/doorbell"
SIMGPU_FILE: Final = "simgpu/machine"

SHARING: Final[Mapping[str, int]] = {"fixed": 0, "burst": 1, "best-effort": 2, "offline": 3}
LEVELS: Final[Mapping[str, int]] = {"none": 0, "advisory": 1, "soft": 2}
# States of a slot's owner word besides a process: see native/include/gpupool/region.h.
OWNER_REAPING: Final = 1
OWNER_REAPER: Final = 1 << 63
OWNER_ENTERING: Final = 1 << 62
OWNER_PID_MASK: Final = (1 << 22) - 1
SLOT_FOREIGN_DRIVER: Final = 1
#: Flag of the limits page: calls of the driver wait before they enter it.
SHARE_CLOSED: Final = 1

_u8 = ctypes.c_uint8
_u32 = ctypes.c_uint32
_i32 = ctypes.c_int32
_u64 = ctypes.c_uint64


class RegionHeader(ctypes.LittleEndianStructure):
    _fields_ = (("magic", _u64), ("layout", _u32), ("size", _u32))


class CDeviceLimit(ctypes.LittleEndianStructure):
    _fields_ = (
        ("uuid", _u8 * 16),
        ("memory_bytes", _u64),
        ("card_memory_bytes", _u64),
        ("context_bytes", _u64),
        ("granule_bytes", _u32),
        ("gpu_milli", _u32),
        ("sharing", _u32),
        ("weight", _u32),
        ("priority", _i32),
        ("duty_offset_milli", _u32),
        ("overhead_bytes", _u64),
        ("reserved", _u32 * 14),
    )


class CLimits(ctypes.LittleEndianStructure):
    _fields_ = (
        ("header", RegionHeader),
        ("generation", _u64),
        ("device_count", _u32),
        ("level", _u32),
        ("slots", _u32),
        ("flags", _u32),
        ("allocation", ctypes.c_char * 64),
        ("job", ctypes.c_char * 64),
        ("tenant", ctypes.c_char * 64),
        ("reserved", _u8 * 280),
        ("device", CDeviceLimit * MAX_DEVICES),
    )


class CGrant(ctypes.LittleEndianStructure):
    _fields_ = (
        ("word", _u32),
        ("holder", _u32),
        ("granted_ns", _u64),
        ("lease_until_ns", _u64),
        ("window_ns", _u64),
        ("beat_ns", _u64),
        ("borrowed_ns", _u64),
        ("denied_ns", _u64),
        ("reserved", _u64 * 1),
    )


class CGrants(ctypes.LittleEndianStructure):
    _fields_ = (
        ("header", RegionHeader),
        ("arbiter_pid", _u64),
        ("reserved", _u64 * 5),
        ("device", CGrant * MAX_DEVICES),
        ("rest", _u8 * (4096 - 64 - 64 * MAX_DEVICES)),
    )


class CSlotDevice(ctypes.LittleEndianStructure):
    _fields_ = (
        ("committed_bytes", _u64),
        ("pending_bytes", _u64),
        ("imported_bytes", _u64),
        ("gpu_ns", _u64),
        ("inflight_ns", _u64),
        ("wait_ns", _u64),
        ("throttled_ns", _u64),
        ("launches", _u64),
        ("refusals", _u32),
        ("waiters", _u32),
        ("contexts", _u32),
        ("reserved", _u32 * 5),
    )


class CSlot(ctypes.LittleEndianStructure):
    _fields_ = (
        ("owner", _u64),
        ("pid_outside", _u32),
        ("flags", _u32),
        ("pid_namespace", _u64),
        ("image", _u64),
        ("imports", _u64),
        ("unmapped_imports", _u64),
        ("reserved", _u64 * 2),
        ("device", CSlotDevice * MAX_DEVICES),
    )


class CUsageDevice(ctypes.LittleEndianStructure):
    """`struct fence_usage_device`. `departed_*` hold what cleared slots had used, so that totals do
    not fall when a process ends."""

    _fields_ = (
        ("charged_ns", _u64),
        ("departed_gpu_ns", _u64),
        ("departed_wait_ns", _u64),
        ("departed_throttled_ns", _u64),
        ("departed_launches", _u64),
        ("departed_refusals", _u64),
        ("orphaned_bytes", _u64),
        ("reserved", _u64 * 1),
    )


class CUsageHead(ctypes.LittleEndianStructure):
    """`struct fence_usage` up to its slots, which follow."""

    _fields_ = (
        ("header", RegionHeader),
        ("high_water", _u32),
        ("unknown_lookups", _u32),
        ("reserved", _u64 * 5),
        ("device", CUsageDevice * MAX_DEVICES),
    )


USAGE_BYTES: Final = ctypes.sizeof(CUsageHead) + MAX_SLOTS * ctypes.sizeof(CSlot)
#: Bytes of `struct fence_timelines`, which only the fence reads, and where it begins: on a page of
#: any size.
TIMELINES_BYTES: Final = MAX_DEVICES * 8 * (FINE_WORDS + COARSE_WORDS)
TIMELINES_AT: Final = 26 << 16
#: The whole usage file. Its header counts `USAGE_BYTES` alone.
USAGE_FILE_BYTES: Final = TIMELINES_AT + TIMELINES_BYTES


class DamagedRegion(Exception):
    """A file of an allocation is not what its header must say."""


def make_file(
    path: Path,
    content: bytes,
    *,
    size: int = 0,
    mode: int = 0o644,
    owner: tuple[int, int] | None = None,
) -> None:
    """Make or replace a file atomically, with zeros after `content` up to `size` bytes."""
    with open_replacement(path) as file:
        file.write(content)
        file.truncate(max(size, len(content)))
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)


def read_part(descriptor: int, offset: int, size: int) -> bytes:
    found = os.pread(descriptor, size, offset)
    if len(found) < size:
        raise DamagedRegion(f"cut short: {len(found)} of {size} bytes at {offset}")
    return found


def check_header(header: RegionHeader, magic: int, size: int, what: str) -> None:
    if (header.magic, header.layout, header.size) != (magic, LAYOUT, size):
        raise DamagedRegion(
            f"{what}: magic {header.magic:#x}, layout {header.layout}, {header.size} bytes; "
            f"expected {magic:#x}, {LAYOUT}, {size}"
        )
