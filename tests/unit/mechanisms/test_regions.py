"""The files that a fenced job, the arbiter and the agent share: layouts as C has them, and damage that is seen."""

import ctypes
import os
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import (
    CGrant,
    CGrants,
    CLimits,
    CSlot,
    CUsageHead,
    DeviceLimit,
    FenceDeviceUsage,
    Limits,
    RegionDamaged,
)

HEADER = Path(__file__).parents[3] / "native/fence/include"
UUID = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7d"
OTHER = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7e"
PAIRS = {
    "fence_header": regions.Header,
    "fence_device_limit": regions.CDeviceLimit,
    "fence_limits": CLimits,
    "fence_grant": CGrant,
    "fence_grants": CGrants,
    "fence_slot_device": regions.CSlotDevice,
    "fence_slot": CSlot,
    "fence_usage_device": regions.CUsageDevice,
    "fence_usage": CUsageHead,
}


def limits(memory: int = 8 << 30, generation: int = 2) -> Limits:
    devices = (DeviceLimit(UUID, memory, 48 << 30, 256 << 20, gpu_milli=300, sharing="burst", weight=3, priority=-5),)
    return Limits("al-1", "job-1", "physics", "soft", devices, generation)


def c_says(tmp_path: Path) -> dict[str, int]:
    """Every offset and size, as the C compiler sees them."""
    lines = [
        f'printf("{name}.{field[0]} %zu\\n", offsetof(struct {name}, {field[0]}));'
        for name, known in PAIRS.items()
        for field in known._fields_
    ]
    lines += [f'printf("{name} %zu\\n", sizeof(struct {name}));' for name in [*PAIRS, "fence_timelines"]]
    constants = ("LAYOUT", "LIMITS_MAGIC", "GRANTS_MAGIC", "USAGE_MAGIC", "MAX_DEVICES", "MAX_SLOTS")
    constants += ("OWNER_REAPING", "SLOT_FOREIGN_DRIVER", "FINE_WORDS", "COARSE_WORDS", "TIMELINES_AT")
    lines += [f'printf("{name} %llu\\n", (unsigned long long)FENCE_{name});' for name in constants]
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stdio.h>\n#include <stddef.h>\n#include <gpupool/region.h>\nint main(void)\n{\n"
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    subprocess.run(["cc", "-std=gnu11", f"-I{HEADER}", "-o", tmp_path / "layout", source], check=True)
    said = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    return {name: int(number) for name, number in (line.split() for line in said.splitlines())}


def test_every_offset_and_constant_is_what_the_header_says(tmp_path: Path) -> None:
    said = c_says(tmp_path)
    ours = {
        f"{name}.{field[0]}": getattr(known, field[0]).offset
        for name, known in PAIRS.items()
        for field in known._fields_
    }
    ours |= {name: ctypes.sizeof(known) for name, known in PAIRS.items()}
    ours["fence_usage"] = regions.USAGE_BYTES
    ours["fence_timelines"] = regions.TIMELINES_BYTES
    ours |= {name: getattr(regions, name) for name in said if name.isupper()}
    assert ours == said


def test_limits_read_back_as_they_were_written(tmp_path: Path) -> None:
    regions.write_limits(tmp_path / "limits", limits())
    assert regions.read_limits(tmp_path / "limits") == limits()
    assert (tmp_path / "limits").stat().st_size == ctypes.sizeof(CLimits)


def test_names_longer_than_the_page_are_cut_in_whole_characters(tmp_path: Path) -> None:
    """As a pod's and its container's are; the page is no other one for it."""
    long = replace(limits(), allocation="a" * 100, job=62 * "j" + "ü/main", tenant="team")
    regions.write_limits(tmp_path / "limits", long)
    read = regions.read_limits(tmp_path / "limits")
    assert (read.allocation, read.job) == ("a" * 63, "j" * 62)
    assert read == regions.as_on_page(long) != long


def test_a_reader_sees_the_old_page_or_the_new_one_in_the_same_file(tmp_path: Path) -> None:
    path, pages = tmp_path / "limits", [limits(memory=(n + 1) << 20, generation=2 * n + 2) for n in range(300)]
    regions.write_limits(path, pages[0])
    inode = path.stat().st_ino
    pairs: set[tuple[int, int]] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                page = regions.read_limits(path)
            except RegionDamaged:
                continue
            pairs.add((page.generation, page.devices[0].memory_bytes))

    reader = threading.Thread(target=read)
    reader.start()
    for page in pages[1:]:
        regions.write_limits(path, page)
    ended.set()
    reader.join()
    assert pairs <= {(page.generation, page.devices[0].memory_bytes) for page in pages}
    assert (path.stat().st_ino, regions.read_limits(path)) == (inode, pages[-1])


def test_a_writer_that_died_half_way_is_seen_and_the_next_one_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "limits"
    regions.write_limits(path, limits())
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), (3).to_bytes(8, "little"), CLimits.generation.offset)
    with pytest.raises(RegionDamaged, match="half written"):
        regions.read_limits(path)
    regions.write_limits(path, limits(generation=4))
    assert regions.read_limits(path) == limits(generation=4)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Limits("a", "j", "t", "soft", ()), "1 to 16 cards"),
        (limits(memory=0), "0 bytes"),
        (limits(generation=3), "generation 3"),
    ],
)
def test_a_page_that_nobody_could_obey_is_not_written(tmp_path: Path, bad: Limits, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        regions.write_limits(tmp_path / "limits", bad)
    assert not (tmp_path / "limits").exists()


def region(path: Path, *slots: CSlot) -> Path:
    """A usage file with these slots, as its processes would have written it."""
    regions.make_file(path, regions.empty_usage(), size=regions.USAGE_BYTES)
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), len(slots).to_bytes(4, "little"), CUsageHead.high_water.offset)
        device = regions.CUsageDevice(charged_ns=77, departed_launches=1000)
        os.pwrite(file.fileno(), bytes(device), CUsageHead.device.offset)
        for number, slot in enumerate(slots):
            os.pwrite(file.fileno(), bytes(slot), ctypes.sizeof(CUsageHead) + number * ctypes.sizeof(CSlot))
    return path


def slot(pid: int, committed: int, pid_outside: int = 0, flags: int = 0) -> CSlot:
    made = CSlot((pid << 32) | 4242, pid_outside, flags)
    made.device[0].committed_bytes, made.device[0].pending_bytes, made.device[0].launches = committed, 5, 9
    made.device[1].gpu_ns = 11
    return made


def test_usage_is_told_by_process_and_in_total(tmp_path: Path) -> None:
    path = region(tmp_path / "region", slot(10, 100), CSlot(0), CSlot(regions.OWNER_REAPING), slot(11, 50, 900, 1))
    usage = regions.read_usage(path, [UUID, OTHER])
    assert [(p.pid, p.start_ticks, p.foreign_driver) for p in usage.processes] == [(10, 4242, False), (900, 4242, True)]
    assert usage.processes[0].devices[UUID] == FenceDeviceUsage(committed_bytes=100, pending_bytes=5, launches=9)
    totals = usage.totals()
    assert (totals[UUID].reserved_bytes, totals[UUID].launches, totals[OTHER].gpu_ns) == (160, 1018, 22)
    assert usage.charged_ns == {UUID: 77, OTHER: 0}


def test_a_region_nobody_used_is_empty(tmp_path: Path) -> None:
    assert regions.read_usage(region(tmp_path / "region"), [UUID]).processes == ()


@pytest.mark.parametrize(
    ("offset", "content", "size"),
    [
        (0, b"x", None),
        (regions.Header.layout.offset, b"\2", None),
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
    with pytest.raises(RegionDamaged):
        regions.read_usage(path, [UUID])


def test_an_empty_grants_page_is_a_good_one(tmp_path: Path) -> None:
    regions.make_file(tmp_path / "grants", regions.empty_grants())
    regions.check_grants(tmp_path / "grants")
    with open(tmp_path / "grants", "r+b") as file:
        file.truncate(100)
    with pytest.raises(RegionDamaged):
        regions.check_grants(tmp_path / "grants")


def test_what_only_the_card_knows_of_is_charged_in_place_and_changes_no_limit(tmp_path: Path) -> None:
    page, granted = tmp_path / "limits", limits()
    regions.write_limits(page, granted)
    regions.write_overhead(page, 0, 300 << 20)
    found = CLimits.from_buffer_copy(page.read_bytes())
    assert (found.device[0].overhead_bytes, found.device[1].overhead_bytes) == (300 << 20, 0)
    assert regions.read_limits(page) == granted
