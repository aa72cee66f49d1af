"""Reads and writes the limits page: what an allocation may have of each card.

The page is replaced in place, since processes have it mapped: its generation is odd while it is
being written. A process that reads an odd generation keeps the limits that it read before.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpupool.mechanisms.regions.layout import (
    LAYOUT,
    LEVELS,
    LIMITS_MAGIC,
    MAX_DEVICES,
    MAX_SLOTS,
    NAME_BYTES,
    SHARE_CLOSED,
    SHARING,
    CDeviceLimit,
    CLimits,
    DamagedRegion,
    RegionHeader,
    check_header,
    make_file,
    read_part,
)

#: Where the flags are on the page.
_FLAGS_AT = CLimits.flags.offset
_FLAGS_BYTES = CLimits.flags.size


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
class ShareLimits:
    """The limits page. `generation` is even; each change adds 2."""

    allocation: str
    job: str
    tenant: str
    level: str
    devices: tuple[DeviceLimit, ...]
    generation: int = 2
    slots: int = MAX_SLOTS


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a card's uuid as cuDeviceGetUuid gives them.

    Raises:
        ValueError: the text is no uuid.

    >>> parse_uuid("GPU-51090000-0000-0000-0000-0000000000ff").hex()
    '510900000000000000000000000000ff'
    """
    return uuid.UUID(text.removeprefix("GPU-").removeprefix("MIG-")).bytes


def cut_to_page(limits: ShareLimits) -> ShareLimits:
    """Return these limits as `read_limits` gives them: the page cuts long names of containers."""
    return replace(
        limits,
        allocation=_cut_name(limits.allocation),
        job=_cut_name(limits.job),
        tenant=_cut_name(limits.tenant),
    )


def _cut_name(text: str) -> str:
    """Return as much of a name as the page has room for, in whole characters."""
    return text.encode()[:NAME_BYTES].decode(errors="ignore")


def encode_limits(limits: ShareLimits) -> bytes:
    """Return `struct fence_limits`.

    Raises:
        ValueError: no program could obey the page: no card, too many cards, or 0 bytes.
    """
    if not 0 < len(limits.devices) <= MAX_DEVICES:
        raise ValueError(f"a fenced share has 1 to {MAX_DEVICES} cards, not {len(limits.devices)}")
    if limits.generation % 2 or not 0 < limits.slots <= MAX_SLOTS:
        raise ValueError(
            f"generation {limits.generation}, {limits.slots} slots: not a page that may be read"
        )
    page = CLimits(
        RegionHeader(LIMITS_MAGIC, LAYOUT, ctypes.sizeof(CLimits)),
        limits.generation,
        len(limits.devices),
        LEVELS[limits.level],
        limits.slots,
        0,
        *(_cut_name(text).encode() for text in (limits.allocation, limits.job, limits.tenant)),
    )
    for place, device in zip(page.device, limits.devices, strict=False):
        _fill_limit(place, device)
    return bytes(page)


def _fill_limit(place: CDeviceLimit, device: DeviceLimit) -> None:
    if device.memory_bytes <= 0:
        raise ValueError(f"{device.memory_bytes} bytes of card {device.uuid} is no share")
    place.uuid = (ctypes.c_uint8 * 16)(*parse_uuid(device.uuid))
    for name in (
        "memory_bytes",
        "card_memory_bytes",
        "context_bytes",
        "granule_bytes",
        "gpu_milli",
        "weight",
    ):
        setattr(place, name, getattr(device, name))
    place.sharing = SHARING[device.sharing]
    place.priority = device.priority
    place.duty_offset_milli = device.duty_offset_milli


def read_limits(path: Path) -> ShareLimits:
    """Read the page.

    Raises:
        FileNotFoundError: there is no page.
        DamagedRegion: it is damaged, or half written at this moment.
    """
    with open(path, "rb", buffering=0) as file:
        page = CLimits.from_buffer_copy(read_part(file.fileno(), 0, ctypes.sizeof(CLimits)))
        again = read_part(file.fileno(), CLimits.generation.offset, 8)
    check_header(page.header, LIMITS_MAGIC, ctypes.sizeof(CLimits), "limits")
    if page.generation % 2 or again != page.generation.to_bytes(8, "little"):
        raise DamagedRegion("limits: half written")
    if not 0 < page.device_count <= MAX_DEVICES:
        raise DamagedRegion(f"limits: {page.device_count} cards")
    names = {number: name for name, number in SHARING.items()}
    levels = {number: name for name, number in LEVELS.items()}
    try:
        devices = tuple(_parse_limit(one, names) for one in page.device[: page.device_count])
        texts = (page.allocation.decode(), page.job.decode(), page.tenant.decode())
        return ShareLimits(*texts, levels[page.level], devices, page.generation, page.slots)
    except (KeyError, UnicodeDecodeError) as problem:
        raise DamagedRegion(f"limits: {problem}") from problem


def _parse_limit(one: CDeviceLimit, names: Mapping[int, str]) -> DeviceLimit:
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


def write_limits(path: Path, limits: ShareLimits) -> None:
    """Replace the page in place, or make it. Idempotent; one writer.

    Concurrent readers see an odd generation, the old page or the new page. A closed share stays
    closed.
    """
    page = encode_limits(limits)
    if not path.exists():
        make_file(path, page)
        return
    at = CLimits.generation.offset
    with open(path, "r+b", buffering=0) as file:
        descriptor = file.fileno()
        kept = os.pread(descriptor, _FLAGS_BYTES, _FLAGS_AT).ljust(_FLAGS_BYTES, b"\0")
        page = page[:_FLAGS_AT] + kept + page[_FLAGS_AT + _FLAGS_BYTES :]
        if os.pread(descriptor, len(page) + 1, 0) == page:
            return
        # Odd first, the new generation last. A writer that dies between leaves an odd generation,
        # which readers refuse and the next write mends.
        os.pwrite(descriptor, (limits.generation - 1).to_bytes(8, "little"), at)
        os.pwrite(descriptor, page[:at], 0)
        os.pwrite(descriptor, page[at + 8 :], at + 8)
        os.ftruncate(descriptor, len(page))
        os.pwrite(descriptor, page[at : at + 8], at)


def write_closed(path: Path, *, closed: bool) -> None:
    """Close a share, or open it. Idempotent.

    Programs that wait see an open share within a second, or at once after
    `ArbiterProcess.notify_change`.

    Raises:
        FileNotFoundError: the page is gone.
    """
    # One aligned word: no reader sees half of it, so the generation need not change.
    word = (SHARE_CLOSED if closed else 0).to_bytes(_FLAGS_BYTES, "little")
    with open(path, "r+b", buffering=0) as file:
        if os.pread(file.fileno(), _FLAGS_BYTES, _FLAGS_AT) != word:
            os.pwrite(file.fileno(), word, _FLAGS_AT)


def is_closed(path: Path) -> bool:
    """Whether a share is closed. Raises FileNotFoundError without a page."""
    with open(path, "rb", buffering=0) as file:
        word = read_part(file.fileno(), _FLAGS_AT, _FLAGS_BYTES)
    return bool(int.from_bytes(word, "little") & SHARE_CLOSED)


def write_overhead(path: Path, device: int, overhead_bytes: int) -> None:
    """Charge the bytes that a card reports beyond an allocation's counters to its memory.

    A page that is written anew begins at 0, so the next audit writes them again.

    Args:
        device: place of the card in the limits page.

    Raises:
        FileNotFoundError: the page is gone.
    """
    at = (
        CLimits.device.offset
        + device * ctypes.sizeof(CDeviceLimit)
        + CDeviceLimit.overhead_bytes.offset
    )
    # One aligned word: no reader sees half of it, so the generation need not change.
    word = overhead_bytes.to_bytes(8, "little")
    with open(path, "r+b", buffering=0) as file:
        if os.pread(file.fileno(), 8, at) != word:
            os.pwrite(file.fileno(), word, at)


def build_next_page(limits: ShareLimits, devices: Sequence[DeviceLimit]) -> ShareLimits:
    """Return the next page of the same allocation, with other limits."""
    return replace(limits, devices=tuple(devices), generation=limits.generation + 2)
