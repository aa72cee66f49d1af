"""The usage file as Python reads it, and damage to it that is named."""

import ctypes
import os
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import (
    CSlot,
    CUsageHead,
    DamagedRegion,
    FenceDeviceUsage,
)

UUID = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7d"


OTHER = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7e"


def region(path: Path, *slots: CSlot) -> Path:
    """A usage file with these slots, as its processes would have written it."""
    regions.make_file(path, regions.empty_usage(), size=regions.USAGE_BYTES)
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), len(slots).to_bytes(4, "little"), CUsageHead.high_water.offset)
        device = regions.CUsageDevice(charged_ns=77, departed_launches=1000)
        os.pwrite(file.fileno(), bytes(device), CUsageHead.device.offset)
        for number, slot in enumerate(slots):
            os.pwrite(
                file.fileno(),
                bytes(slot),
                ctypes.sizeof(CUsageHead) + number * ctypes.sizeof(CSlot),
            )
    return path


def slot(pid: int, committed: int, pid_outside: int = 0, flags: int = 0) -> CSlot:
    made = CSlot((pid << 32) | 4242, pid_outside, flags)
    made.device[0].committed_bytes, made.device[0].pending_bytes, made.device[0].launches = (
        committed,
        5,
        9,
    )
    made.device[1].gpu_ns = 11
    return made


def test_usage_is_told_by_process_and_in_total(tmp_path: Path) -> None:
    path = region(
        tmp_path / "region",
        slot(10, 100),
        CSlot(0),
        CSlot(regions.OWNER_REAPING),
        slot(11, 50, 900, 1),
    )
    usage = regions.read_usage(path, [UUID, OTHER])
    assert [(p.pid, p.start_ticks, p.foreign_driver) for p in usage.processes] == [
        (10, 4242, False),
        (900, 4242, True),
    ]
    assert usage.processes[0].devices[UUID] == FenceDeviceUsage(
        committed_bytes=100, pending_bytes=5, launches=9
    )
    totals = usage.sum_totals()
    assert (totals[UUID].reserved_bytes, totals[UUID].launches, totals[OTHER].gpu_ns) == (
        160,
        1018,
        22,
    )
    assert usage.charged_ns == {UUID: 77, OTHER: 0}


def test_a_region_nobody_used_is_empty(tmp_path: Path) -> None:
    assert regions.read_usage(region(tmp_path / "region"), [UUID]).processes == ()


@pytest.mark.parametrize(
    ("offset", "content", "size"),
    [
        (0, b"x", None),
        (regions.RegionHeader.layout.offset, b"\2", None),
        (CUsageHead.high_water.offset, (2000).to_bytes(4, "little"), None),
        (0, b"", 0),
        (0, b"", 1500),
        (0, b"", regions.USAGE_BYTES - 1),
    ],
)
def test_a_damaged_region_is_named_and_nothing_crashes(
    tmp_path: Path, offset: int, content: bytes, size: int | None
) -> None:
    path = region(tmp_path / "region", slot(10, 100))
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), content, offset)
        if size is not None:
            file.truncate(size)
    with pytest.raises(DamagedRegion):
        regions.read_usage(path, [UUID])
