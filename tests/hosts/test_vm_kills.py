"""A dozen kills of virtual machines: no disk lost, no QEMU left, the books close; real QEMU.

`GPUPOOL_FAULT_SEED=N` repeats a plan of kills. `make bench ARGS=vm-kills` does five hundred.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.hosts import guest
from tests.hosts.disk_guest import (
    DISK_BYTES,
    PLACES,
    SECTOR,
    DiskState,
    find_last_number,
    inspect_disk,
    write_image,
)
from tests.hosts.vm_kills import run_vm_kills

SEED = int(os.environ.get("GPUPOOL_FAULT_SEED") or random.SystemRandom().randrange(1 << 31))
needs_qemu = pytest.mark.skipif(
    bool(guest.find_missing_part()), reason=guest.find_missing_part() or "QEMU is here"
)
pytestmark = pytest.mark.hosts


@needs_qemu
@pytest.mark.root
@pytest.mark.parametrize(("separate_agent", "kills"), [(False, 8), (True, 4)])
def test_virtual_machines_survive_kills(tmp_path: Path, separate_agent: bool, kills: int) -> None:
    counts = run_vm_kills(tmp_path, SEED, kills, separate_agent=separate_agent)
    print(f"seed {SEED}: {counts}")
    assert counts.kills.total() == kills
    assert counts.done["disks checked"] > 0


def make_disk(path: Path, counter: int, **places: int) -> Path:
    """A disk as a guest leaves it after so many writes, with some places changed."""
    write_image(path)
    with open(path, "r+b") as disk:
        for number in range(1, counter + 1):
            disk.seek((number % PLACES + 1) * 128 * SECTOR)
            disk.write(number.to_bytes(4, "little"))
        disk.seek(SECTOR)
        disk.write(counter.to_bytes(4, "little"))
        for place, number in places.items():
            disk.seek((int(place.removeprefix("place")) + 1) * 128 * SECTOR)
            disk.write(number.to_bytes(4, "little"))
    return path


def test_numbers_are_found_in_a_log_that_is_cut_anywhere() -> None:
    assert find_last_number(b"0000FF\r\n000000FE\r\n000000FF\r\n000001") == 0xFF
    assert find_last_number(b"") == 0


@needs_qemu
@pytest.mark.parametrize("counter", [0, 5, 64, 200])
def test_a_disk_that_has_every_write_is_intact(tmp_path: Path, counter: int) -> None:
    state = inspect_raw(make_disk(tmp_path / "disk", counter), counter)
    assert (state.problems, state.counter) == ((), counter)
    # Killed between the two writes of a number.
    ahead = {f"place{(counter + 1) % PLACES}": counter + 1}
    assert inspect_raw(make_disk(tmp_path / "disk", counter, **ahead), counter).problems == ()


@needs_qemu
def test_a_lost_write_is_found(tmp_path: Path) -> None:
    (problem,) = inspect_raw(make_disk(tmp_path / "disk", 100), 101).problems
    assert "its counter is 100, and its guest printed 101" in problem
    (problem,) = inspect_raw(make_disk(tmp_path / "disk", 100, place36=36), 100).problems
    assert "place 36 has 36, expected one of [100]" in problem
    (tmp_path / "disk").write_bytes(bytes(DISK_BYTES))
    assert "first sector" in inspect_raw(tmp_path / "disk", 0).problems[0]


def inspect_raw(disk: Path, printed: int) -> DiskState:
    """Inspect a disk as a qcow2 file, which is what virtual machines have."""
    overlay = disk.with_name("overlay.qcow2")
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, overlay], check=True)
    return inspect_disk(overlay, printed)
