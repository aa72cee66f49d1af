"""A fenced share's files: what they say, how they change while a job runs, and how the level is
told."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.base.errors import NotFound, StaleGeneration
from gpupool.mechanisms import regions
from gpupool.mechanisms.contract import AllocationView, FenceLevel, GrantedDevice, JobSeat
from gpupool.mechanisms.driver.driver_files import (
    find_simulated_libraries,
    find_templates,
    list_known_drivers,
)
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.fenced_files import find_fenced_files, read_allocation_usage
from gpupool.mechanisms.regions import USAGE_FILE_BYTES, read_limits
from gpupool.mechanisms.registry import MECHANISMS, choose_mechanism
from gpupool.probes.simulated import parse_sim

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)

CARDS = parse_sim("2xL40S")[0].devices
GIB = 1 << 30


def view(
    name: str = "al-1", milli: int = 300, memory: int = 8 * GIB, **changes: object
) -> AllocationView:
    granted = (GrantedDevice(CARDS[0], milli, memory, 256 << 20, 2 << 20),)
    seat = JobSeat(uid=os.getuid(), gid=os.getgid())
    known = AllocationView(
        "pool", name, 3, "job-1", "physics", "fixed", granted, CARDS, seat, machine=Path("/sim")
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def test_the_limits_page_says_what_was_granted(tmp_path: Path) -> None:
    prepared = FenceMechanism().prepare(view(sharing="burst", priority=100), tmp_path)
    page = read_limits(prepared.share_dir / "limits")
    (device,) = page.devices
    assert (page.allocation, page.job, page.tenant, page.level, page.generation) == (
        "al-1",
        "job-1",
        "physics",
        "soft",
        2,
    )
    assert (device.uuid, device.memory_bytes, device.card_memory_bytes) == (
        CARDS[0].uuid,
        8 * GIB,
        CARDS[0].memory_bytes,
    )
    assert (device.context_bytes, device.granule_bytes, device.gpu_milli) == (
        256 << 20,
        2 << 20,
        300,
    )
    assert (device.sharing, device.weight, device.priority) == ("burst", 300, 100)
    assert (prepared.share_dir / "devices").read_text() == f"{CARDS[0].uuid}\n"


def test_the_ledger_is_the_jobs_and_its_directory_is_not(tmp_path: Path) -> None:
    usage = FenceMechanism().prepare(view(), tmp_path).share_dir.parent / "usage"
    region = (usage / "region").stat()
    assert (region.st_uid, region.st_mode & 0o777, region.st_size) == (
        os.getuid(),
        0o600,
        USAGE_FILE_BYTES,
    )
    assert usage.stat().st_mode & 0o777 == 0o711
    ledger = read_allocation_usage("al-1", tmp_path)
    assert ledger is not None
    assert ledger.processes == ()


def test_the_job_is_shown_its_files_its_cards_and_a_cache_that_names_the_stand_in(
    tmp_path: Path,
) -> None:
    prepared = FenceMechanism().prepare(view(), tmp_path)
    targets = {mount.target: mount for mount in prepared.mounts}
    assert targets["/run/gpupool/usage"].writable
    assert targets["/run/gpupool/simgpu"].source == Path("/sim")
    cache = targets["/etc/ld.so.cache"]
    assert not cache.writable
    (root,) = (tmp_path / "fence").iterdir()
    assert str(root / "lib/libcuda.so.1").encode() in cache.source.read_bytes()
    assert prepared.library_path[0] == str(root / "lib")
    assert prepared.unmounted == {"GPUPOOL_SIMGPU": "/sim/machine"}


def test_neighbours_have_parts_of_a_period_that_do_not_overlap(tmp_path: Path) -> None:
    fence = FenceMechanism()
    sizes = {"al-1": 300, "al-2": 500, "al-3": 200}
    pages = [
        read_limits(fence.prepare(view(name, milli, GIB), tmp_path).share_dir / "limits")
        for name, milli in sizes.items()
    ]
    assert [page.devices[0].duty_offset_milli for page in pages] == [0, 300, 800]
    fence.unprepare("al-2", 3, tmp_path)
    again = read_limits(fence.prepare(view("al-4", 400, GIB), tmp_path).share_dir / "limits")
    assert again.devices[0].duty_offset_milli == 300, "the first gap that is large enough"


def test_a_resize_changes_the_page_in_place_and_twice_is_once(tmp_path: Path) -> None:
    fence = FenceMechanism()
    limits = fence.prepare(view(), tmp_path).share_dir / "limits"
    inode = limits.stat().st_ino
    larger = view(milli=500, memory=16 * GIB, generation=4)
    for _ in range(2):
        fence.resize(larger, tmp_path)
        page = read_limits(limits)
        assert (page.generation, page.devices[0].memory_bytes, page.devices[0].gpu_milli) == (
            4,
            16 * GIB,
            500,
        )
    assert limits.stat().st_ino == inode
    assert fence.observe(tmp_path)["al-1"].problem == ""
    assert (
        json.loads((limits.parent / "share.json").read_text())["devices"][0]["memory_bytes"]
        == 16 * GIB
    )
    with pytest.raises(StaleGeneration):
        fence.resize(view(), tmp_path)
    with pytest.raises(NotFound):
        fence.resize(view("al-2"), tmp_path)


def test_the_largest_share_that_an_allocation_had_is_remembered(tmp_path: Path) -> None:
    fence = FenceMechanism()
    fence.prepare(view(memory=4 * GIB), tmp_path)
    sizes = (16 * GIB, 8 * GIB)
    for number, size in enumerate(sizes):
        fence.resize(view(memory=size, generation=4 + number), tmp_path)
    fence.prepare(view(memory=8 * GIB, generation=5), tmp_path)
    found = find_fenced_files("al-1", tmp_path)
    assert found is not None
    assert found.wanted.devices[0].memory_bytes == 8 * GIB
    assert list(found.highest.values()) == [16 * GIB]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("share/limits", b"\0" * 4096, "magic"),
        ("share/limits", b"", "cut short"),
        ("share/devices", b"GPU-other\n", "list of cards"),
        ("share/grants", b"x", "cut short"),
        ("usage/region", b"", "cut short"),
        ("share/share.json", b"{}", "share file was changed"),
    ],
)
def test_what_was_changed_or_damaged_is_named(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    fence = FenceMechanism()
    folder = fence.prepare(view(), tmp_path).share_dir.parent
    (folder / name).write_bytes(content)
    assert words in fence.observe(tmp_path)["al-1"].problem
    fence.prepare(view(), tmp_path)
    assert fence.observe(tmp_path)["al-1"].problem == ""


def test_without_mounts_it_is_advice_everywhere_it_is_said(tmp_path: Path) -> None:
    fence = FenceMechanism()
    share = fence.prepare(view(), tmp_path).share_dir
    for _ in range(2):
        fence.weaken_level("al-1", "its private mounts were refused", tmp_path)
        assert fence.read_enforcement("al-1", tmp_path) == (
            FenceLevel.ADVISORY,
            "its private mounts were refused",
        )
        assert (read_limits(share / "limits").level, read_limits(share / "limits").generation) == (
            "advisory",
            4,
        )
        assert json.loads((share / "share.json").read_text())["fence"] == "advisory"
    assert fence.observe(tmp_path)["al-1"].problem == ""


def test_in_a_users_own_pool_it_is_advice(tmp_path: Path) -> None:
    own = JobSeat("/tmp/gpupool-5", 5, 5, own_pool=True)
    prepared = FenceMechanism().prepare(view(seat=own), tmp_path)
    assert prepared.fence is FenceLevel.ADVISORY
    assert {mount.target for mount in prepared.mounts} >= {
        "/tmp/gpupool-5/usage",
        "/tmp/gpupool-5/simgpu",
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fence": False}, "asked for no fence"),
        ({"machine": None}, "no file of its simulated cards"),
        (
            {"granted": (GrantedDevice(replace(CARDS[0], vendor="amd"), 300, GIB),)},
            "no fence for cards of amd",
        ),
        ({"granted": (GrantedDevice(CARDS[0], 300, 0),)}, "0 MiB"),
    ],
)
def test_what_it_cannot_hold_is_counted_only_and_the_share_says_why(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    wanted = view(**changes)
    assert reason in FenceMechanism().explain_refusal(wanted)
    if "granted" not in changes or wanted.granted[0].memory_bytes:
        assert choose_mechanism(wanted) is MECHANISMS["share"]
        assert MECHANISMS["share"].prepare(wanted, tmp_path).notes[0] == "fence: none"
        assert reason in MECHANISMS["share"].read_enforcement("al-1", tmp_path)[1]


def test_an_allocation_that_is_being_changed_is_not_compared(tmp_path: Path) -> None:
    FenceMechanism().prepare(view(), tmp_path)
    known = find_fenced_files("al-1", tmp_path)
    assert known is not None
    assert known.uuids == (CARDS[0].uuid,)
    assert read_limits(known.limits) == known.wanted
    assert find_fenced_files("al-2", tmp_path) is None


def test_a_level_that_was_lowered_in_part_is_lowered_by_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = FenceMechanism().prepare(view(), tmp_path).share_dir / "limits"
    with monkeypatch.context() as full:
        full.setattr(regions, "write_limits", _fill_disk)
        with pytest.raises(OSError, match="No space"):
            FenceMechanism().weaken_level("al-1", "its mounts were refused", tmp_path)
    FenceMechanism().weaken_level("al-1", "its mounts were refused", tmp_path)
    assert read_limits(limits).level == "advisory"
    assert FenceMechanism().observe(tmp_path)["al-1"].problem == ""
    assert find_fenced_files("al-1", tmp_path) is not None


def _fill_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_damaged_note_is_prepared_anew(tmp_path: Path) -> None:
    folder = FenceMechanism().prepare(view(), tmp_path).share_dir.parent
    (folder / "note.json").write_text("{")
    FenceMechanism().prepare(view(), tmp_path)
    assert find_fenced_files("al-1", tmp_path) is not None


def refuse_late_resize(fence: FenceMechanism, state_dir: Path) -> None:
    fence.resize(view(milli=100, generation=2), state_dir)


def refuse_late_release(fence: FenceMechanism, state_dir: Path) -> None:
    fence.unprepare("al-1", 2, state_dir)


@pytest.mark.parametrize("call", [refuse_late_resize, refuse_late_release])
def test_a_late_call_leaves_a_neighbours_part_of_a_period(
    tmp_path: Path, call: Callable[[FenceMechanism, Path], None]
) -> None:
    fence = FenceMechanism()
    fence.prepare(view(milli=500), tmp_path)
    fence.prepare(view("al-0", milli=100), tmp_path)
    with pytest.raises(StaleGeneration):
        call(fence, tmp_path)
    beside = fence.prepare(view("al-2", milli=300), tmp_path).share_dir / "limits"
    assert read_limits(beside).devices[0].duty_offset_milli == 600


def test_the_driver_that_a_job_began_with_is_known_after_it_was_replaced(tmp_path: Path) -> None:
    simulated = find_simulated_libraries()
    assert simulated is not None
    library = tmp_path / "root/usr/lib/libcuda.so.1"
    library.parent.mkdir(parents=True)
    shutil.copy(simulated / "libcuda.so.1", library)
    card = replace(CARDS[0], simulated=False)
    seat = JobSeat(container=True, driver_root=tmp_path / "root")
    job = view(granted=(GrantedDevice(card, 300, GIB),), seat=seat, machine=None)
    fence = FenceMechanism()
    fence.prepare(job, tmp_path)
    inode = library.stat().st_ino
    shutil.copy(library, library.with_name("new"))
    library.with_name("new").replace(library)
    fence.resize(replace(job, generation=4), tmp_path)
    files = find_fenced_files("al-1", tmp_path)
    assert files is not None
    assert inode in files.drivers
    assert inode not in list_known_drivers(tmp_path, seat.driver_root)
