"""The limits page: written, replaced in place, read back, and refused where it is damaged."""

import ctypes
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import (
    CLimits,
    DamagedRegion,
    DeviceLimit,
    ShareLimits,
)

UUID = "GPU-5109a0b1-c2d3-e4f5-0617-28394a5b6c7d"


def limits(memory: int = 8 << 30, generation: int = 2) -> ShareLimits:
    devices = (
        DeviceLimit(
            UUID, memory, 48 << 30, 256 << 20, gpu_milli=300, sharing="burst", weight=3, priority=-5
        ),
    )
    return ShareLimits("al-1", "job-1", "physics", "soft", devices, generation)


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
    assert read == regions.cut_to_page(long) != long


def test_a_reader_sees_the_old_page_or_the_new_one_in_the_same_file(tmp_path: Path) -> None:
    path, pages = (
        tmp_path / "limits",
        [limits(memory=(n + 1) << 20, generation=2 * n + 2) for n in range(300)],
    )
    regions.write_limits(path, pages[0])
    inode = path.stat().st_ino
    pairs: set[tuple[int, int]] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                page = regions.read_limits(path)
            except DamagedRegion:
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
    with pytest.raises(DamagedRegion, match="half written"):
        regions.read_limits(path)
    regions.write_limits(path, limits(generation=4))
    assert regions.read_limits(path) == limits(generation=4)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (ShareLimits("a", "j", "t", "soft", ()), "1 to 16 cards"),
        (limits(memory=0), "0 bytes"),
        (limits(generation=3), "generation 3"),
    ],
)
def test_a_page_that_nobody_could_obey_is_not_written(
    tmp_path: Path, bad: ShareLimits, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        regions.write_limits(tmp_path / "limits", bad)
    assert not (tmp_path / "limits").exists()


def test_what_only_the_card_knows_of_is_charged_in_place_and_changes_no_limit(
    tmp_path: Path,
) -> None:
    page, granted = tmp_path / "limits", limits()
    regions.write_limits(page, granted)
    regions.write_overhead(page, 0, 300 << 20)
    found = CLimits.from_buffer_copy(page.read_bytes())
    assert (found.device[0].overhead_bytes, found.device[1].overhead_bytes) == (300 << 20, 0)
    assert regions.read_limits(page) == granted
