"""The three files of one fenced allocation, as Python writes and reads them: limits, grants, usage.

The layouts are `native/fence/include/gpupool/region.h`; a test compares every offset with what a C compiler
makes of it. Limits are replaced in place, since processes have the page mapped: the generation is odd
while it is being written. The usage file is its tenant's to write, so it is never mapped here (a tenant may cut
it short at any moment, and that would be a bus error): it is read with pread(2), checked, and believed as a claim
only. Knows no mechanism and no process.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gpupool.base.durable import replacing

LAYOUT: Final = 1
LIMITS_MAGIC: Final = int.from_bytes(b"GPPLIMS1", "little")
GRANTS_MAGIC: Final = int.from_bytes(b"GPPGRNT1", "little")
USAGE_MAGIC: Final = int.from_bytes(b"GPPPUSG1", "little")
MAX_DEVICES: Final = 16
MAX_SLOTS: Final = 1024
FINE_WORDS: Final = 8192
COARSE_WORDS: Final = 8192
NAME_BYTES: Final = 63
"""Of a name on the limits page, without the zero at its end."""

LIMITS_FILE: Final = "share/limits"
GRANTS_FILE: Final = "share/grants"
DEVICES_FILE: Final = "share/devices"
USAGE_FILE: Final = "usage/region"
DOORBELL_FILE: Final = "usage/doorbell"
SIMGPU_FILE: Final = "simgpu/machine"

SHARING: Final[Mapping[str, int]] = {"fixed": 0, "burst": 1, "best-effort": 2}
LEVELS: Final[Mapping[str, int]] = {"none": 0, "advisory": 1, "soft": 2}
OWNER_REAPING: Final = 1
OWNER_REAPER: Final = 1 << 63
OWNER_ENTERING: Final = 1 << 62
OWNER_PID_MASK: Final = (1 << 22) - 1
SLOT_FOREIGN_DRIVER: Final = 1

_u8, _u32, _i32, _u64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64


class Header(ctypes.LittleEndianStructure):
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
        ("header", Header),
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
        ("reserved", _u64 * 3),
    )


class CGrants(ctypes.LittleEndianStructure):
    _fields_ = (
        ("header", Header),
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
    """`departed_*`: what the slots cleared so far had used, so that totals do not fall when a process ends."""

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
        ("header", Header),
        ("high_water", _u32),
        ("unknown_lookups", _u32),
        ("reserved", _u64 * 5),
        ("device", CUsageDevice * MAX_DEVICES),
    )


USAGE_BYTES: Final = ctypes.sizeof(CUsageHead) + MAX_SLOTS * ctypes.sizeof(CSlot)
#: Bytes of `struct fence_timelines`, which only the fence reads, and where it begins: on a page of any size.
TIMELINES_BYTES: Final = MAX_DEVICES * 8 * (FINE_WORDS + COARSE_WORDS)
TIMELINES_AT: Final = 26 << 16
#: The whole usage file. Its header counts `USAGE_BYTES` alone.
USAGE_FILE_BYTES: Final = TIMELINES_AT + TIMELINES_BYTES


class RegionDamaged(Exception):
    """A file of an allocation is not what its header must say; the message says how."""


@dataclass(frozen=True)
class DeviceLimit:
    """What an allocation may have of one card. `uuid` as the driver prints it: GPU-xxxxxxxx-..."""

    uuid: str
    memory_bytes: int
    card_memory_bytes: int
    context_bytes: int = 0
    granule_bytes: int = 2 << 20
    gpu_milli: int = 1000
    sharing: str = "fixed"
    weight: int = 1
    priority: int = 0
    duty_offset_milli: int = 0


@dataclass(frozen=True)
class Limits:
    """The limits page. `generation` is even; each change adds 2."""

    allocation: str
    job: str
    tenant: str
    level: str
    devices: tuple[DeviceLimit, ...]
    generation: int = 2
    slots: int = MAX_SLOTS


@dataclass(frozen=True)
class FenceDeviceUsage:
    """What one process, or all of an allocation, uses of one card by the fence's own ledger.

    Bytes and nanoseconds. `gpu_ns`, `wait_ns`, `throttled_ns` (of `wait_ns`: because the share was used up), `launches`
    and `refusals` only grow; what processes had used that have ended is in `FenceUsage.departed`.
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
        """What counts against the limit."""
        return self.committed_bytes + self.pending_bytes

    def __add__(self, other: FenceDeviceUsage) -> FenceDeviceUsage:
        return FenceDeviceUsage(*(getattr(self, name) + getattr(other, name) for name in _COUNTERS))


_COUNTERS: Final = tuple(FenceDeviceUsage.__dataclass_fields__)


@dataclass(frozen=True)
class FenceProcess:
    """One slot in use. `pid` in this host's namespace where the arbiter has told it, else as the process knows
    itself; `start_ticks` the low 32 bits of its start time (/proc/PID/stat). `devices` by uuid.
    """

    pid: int
    start_ticks: int
    foreign_driver: bool
    devices: Mapping[str, FenceDeviceUsage]


@dataclass(frozen=True)
class FenceUsage:
    """One look at an allocation's usage file. By uuid: `charged_ns`, the allocation's GPU time since it began,
    predicted and then corrected; `departed`, what processes that have ended had used. `unknown_lookups`: driver
    functions asked for that the table does not know.
    """

    processes: tuple[FenceProcess, ...] = ()
    charged_ns: Mapping[str, int] = field(default_factory=dict)
    departed: Mapping[str, FenceDeviceUsage] = field(default_factory=dict)
    unknown_lookups: int = 0

    def totals(self) -> dict[str, FenceDeviceUsage]:
        """By uuid: all processes together, those that have ended included."""
        empty = FenceDeviceUsage()
        return {
            uuid_: sum((process.devices.get(uuid_, empty) for process in self.processes), self.departed[uuid_])
            for uuid_ in self.charged_ns
        }


# Limits -------------------------------------------------------------------------------------------------


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a card's uuid as cuDeviceGetUuid gives it. Raises ValueError for what is none.

    >>> uuid_bytes("GPU-51090000-0000-0000-0000-0000000000ff").hex()
    '510900000000000000000000000000ff'
    """
    return uuid.UUID(text.removeprefix("GPU-").removeprefix("MIG-")).bytes


def as_on_page(limits: Limits) -> Limits:
    """What `read_limits` gives of these limits: long names are cut on the page (a container's name may be)."""
    return replace(
        limits,
        allocation=_on_page(limits.allocation),
        job=_on_page(limits.job),
        tenant=_on_page(limits.tenant),
    )


def _on_page(text: str) -> str:
    """As much of it as the page has room for, in whole characters."""
    return text.encode()[:NAME_BYTES].decode(errors="ignore")


def encode_limits(limits: Limits) -> bytes:
    """`struct fence_limits`. Raises ValueError for a page that no program could obey: no card, too many, 0 bytes."""
    if not 0 < len(limits.devices) <= MAX_DEVICES:
        raise ValueError(f"a fenced share has 1 to {MAX_DEVICES} cards, not {len(limits.devices)}")
    if limits.generation % 2 or not 0 < limits.slots <= MAX_SLOTS:
        raise ValueError(f"generation {limits.generation}, {limits.slots} slots: not a page that may be read")
    page = CLimits(
        Header(LIMITS_MAGIC, LAYOUT, ctypes.sizeof(CLimits)),
        limits.generation,
        len(limits.devices),
        LEVELS[limits.level],
        limits.slots,
        0,
        *(_on_page(text).encode() for text in (limits.allocation, limits.job, limits.tenant)),
    )
    for place, device in zip(page.device, limits.devices, strict=False):
        _fill(place, device)
    return bytes(page)


def _fill(place: CDeviceLimit, device: DeviceLimit) -> None:
    if device.memory_bytes <= 0:
        raise ValueError(f"{device.memory_bytes} bytes of card {device.uuid} is no share")
    place.uuid = (_u8 * 16)(*uuid_bytes(device.uuid))
    for name in ("memory_bytes", "card_memory_bytes", "context_bytes", "granule_bytes", "gpu_milli", "weight"):
        setattr(place, name, getattr(device, name))
    place.sharing, place.priority = SHARING[device.sharing], device.priority
    place.duty_offset_milli = device.duty_offset_milli


def read_limits(path: Path) -> Limits:
    """The page as it is now. Raises FileNotFoundError, RegionDamaged; also while it is half written."""
    with open(path, "rb", buffering=0) as file:
        page = CLimits.from_buffer_copy(_part(file.fileno(), 0, ctypes.sizeof(CLimits)))
        again = _part(file.fileno(), CLimits.generation.offset, 8)
    _check(page.header, LIMITS_MAGIC, ctypes.sizeof(CLimits), "limits")
    if page.generation % 2 or again != page.generation.to_bytes(8, "little"):
        raise RegionDamaged("limits: half written")
    if not 0 < page.device_count <= MAX_DEVICES:
        raise RegionDamaged(f"limits: {page.device_count} cards")
    names = {number: name for name, number in SHARING.items()}
    levels = {number: name for name, number in LEVELS.items()}
    try:
        devices = tuple(_limit(one, names) for one in page.device[: page.device_count])
        texts = (page.allocation.decode(), page.job.decode(), page.tenant.decode())
        return Limits(*texts, levels[page.level], devices, page.generation, page.slots)
    except (KeyError, UnicodeDecodeError) as problem:
        raise RegionDamaged(f"limits: {problem}") from problem


def _limit(one: CDeviceLimit, names: Mapping[int, str]) -> DeviceLimit:
    return DeviceLimit(
        f"GPU-{uuid.UUID(bytes=bytes(one.uuid))}",
        one.memory_bytes,
        one.card_memory_bytes,
        one.context_bytes,
        one.granule_bytes,
        one.gpu_milli,
        names[one.sharing],
        one.weight,
        one.priority,
        one.duty_offset_milli,
    )


def write_limits(path: Path, limits: Limits) -> None:
    """Replace the page in place, or make it. Who reads meanwhile sees an odd generation, or the old or new page.

    Idempotent; one writer. A writer that dies half-way leaves an odd generation, which the next write mends.
    """
    page = encode_limits(limits)
    if not path.exists():
        make_file(path, page)
        return
    at = CLimits.generation.offset
    with open(path, "r+b", buffering=0) as file:
        descriptor = file.fileno()
        if os.pread(descriptor, len(page) + 1, 0) == page:
            return
        os.pwrite(descriptor, (limits.generation - 1).to_bytes(8, "little"), at)
        os.pwrite(descriptor, page[:at], 0)
        os.pwrite(descriptor, page[at + 8 :], at + 8)
        os.ftruncate(descriptor, len(page))
        os.pwrite(descriptor, page[at : at + 8], at)


def write_overhead(path: Path, device: int, overhead_bytes: int) -> None:
    """What the card says an allocation holds beyond its ledger; counts against its memory from now on.

    `device` is the place in the limits page. One aligned word, so no reader sees half of it. A page that is
    written anew begins at 0 and is told again. Raises FileNotFoundError.
    """
    at = CLimits.device.offset + device * ctypes.sizeof(CDeviceLimit) + CDeviceLimit.overhead_bytes.offset
    word = overhead_bytes.to_bytes(8, "little")
    with open(path, "r+b", buffering=0) as file:
        if os.pread(file.fileno(), 8, at) != word:
            os.pwrite(file.fileno(), word, at)


def changed(limits: Limits, devices: Sequence[DeviceLimit]) -> Limits:
    """The next page of the same allocation."""
    return replace(limits, devices=tuple(devices), generation=limits.generation + 2)


# Grants and usage, as they begin ------------------------------------------------------------------------


def empty_grants() -> bytes:
    """`struct fence_grants` before the arbiter's first word."""
    return bytes(CGrants(Header(GRANTS_MAGIC, LAYOUT, ctypes.sizeof(CGrants))))


def empty_usage() -> bytes:
    """The head of `struct fence_usage`; the slots after it are zero."""
    return bytes(CUsageHead(Header(USAGE_MAGIC, LAYOUT, USAGE_BYTES)))


def check_grants(path: Path) -> None:
    """Raises FileNotFoundError, RegionDamaged."""
    found = CGrants.from_buffer_copy(_whole(path, ctypes.sizeof(CGrants)))
    _check(found.header, GRANTS_MAGIC, ctypes.sizeof(CGrants), "grants")


def make_file(
    path: Path, content: bytes, *, size: int = 0, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """A new file, whole or not at all, zero up to `size`; an older one of that name is replaced."""
    with replacing(path) as file:
        file.write(content)
        file.truncate(max(size, len(content)))
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)


def read_usage(path: Path, uuids: Sequence[str]) -> FenceUsage:
    """What an allocation's processes say they use. `uuids`: its cards, in the order of the limits page.

    Raises FileNotFoundError; RegionDamaged when the file is cut short or its header is not ours.
    """
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        head = CUsageHead.from_buffer_copy(_part(descriptor, 0, ctypes.sizeof(CUsageHead)))
        _check(head.header, USAGE_MAGIC, USAGE_BYTES, "usage")
        if os.fstat(descriptor).st_size < USAGE_BYTES or head.high_water > MAX_SLOTS:
            raise RegionDamaged(f"usage: {os.fstat(descriptor).st_size} bytes, {head.high_water} slots")
        size = ctypes.sizeof(CSlot)
        slots = _part(descriptor, ctypes.sizeof(CUsageHead), head.high_water * size)
    used = (CSlot.from_buffer_copy(slots, number * size) for number in range(head.high_water))
    return FenceUsage(
        tuple(_process(slot, uuids) for slot in used if _is_process(slot.owner)),
        {uuid_: one.charged_ns for uuid_, one in zip(uuids, head.device, strict=False)},
        {uuid_: _departed(one) for uuid_, one in zip(uuids, head.device, strict=False)},
        head.unknown_lookups,
    )


def _is_process(owner: int) -> bool:
    """A process has the slot; nobody is taking or clearing it."""
    return owner > OWNER_REAPING and not owner & (OWNER_REAPER | OWNER_ENTERING)


def _departed(device: CUsageDevice) -> FenceDeviceUsage:
    return FenceDeviceUsage(
        gpu_ns=device.departed_gpu_ns,
        wait_ns=device.departed_wait_ns,
        throttled_ns=device.departed_throttled_ns,
        launches=device.departed_launches,
        refusals=device.departed_refusals,
    )


def _process(slot: CSlot, uuids: Sequence[str]) -> FenceProcess:
    devices = {
        uuid_: FenceDeviceUsage(*(getattr(one, name) for name in _COUNTERS))
        for uuid_, one in zip(uuids, slot.device, strict=False)
    }
    pid = slot.pid_outside or (slot.owner >> 32) & OWNER_PID_MASK
    return FenceProcess(pid, slot.owner & 0xFFFFFFFF, bool(slot.flags & SLOT_FOREIGN_DRIVER), devices)


def _whole(path: Path, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return _part(file.fileno(), 0, size)


def _part(descriptor: int, offset: int, size: int) -> bytes:
    found = os.pread(descriptor, size, offset)
    if len(found) < size:
        raise RegionDamaged(f"cut short: {len(found)} of {size} bytes at {offset}")
    return found


def _check(header: Header, magic: int, size: int, what: str) -> None:
    if (header.magic, header.layout, header.size) != (magic, LAYOUT, size):
        raise RegionDamaged(
            f"{what}: magic {header.magic:#x}, layout {header.layout}, {header.size} bytes; "
            f"expected {magic:#x}, {LAYOUT}, {size}"
        )
