"""What a host could hold, told before a job runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from gpupool.mechanisms.driver.installed_driver import CUDA, DriverFiles
from gpupool.mechanisms.fence_survey import can_mount, survey_fence

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)


def driver(place: Path) -> DriverFiles:
    source = find_simulated_libraries()
    assert source is not None
    shutil.copy(source / CUDA, place / CUDA)
    return DriverFiles({CUDA: (place / CUDA,)})


def test_a_users_own_pool_is_advice_and_roots_is_soft_where_itcan_mount() -> None:
    own = survey_fence(own_pool=True, simulated=True)
    assert (own.level, own.missing) == (FenceLevel.ADVISORY, ())
    roots = survey_fence(own_pool=False, simulated=True)
    assert roots.level is (FenceLevel.SOFT if can_mount() else FenceLevel.ADVISORY)
    assert own.list_facts()["unclassified_count"] == 0


def test_without_a_driver_nothing_is_held_and_it_says_what_is_missing() -> None:
    known = survey_fence(own_pool=False, simulated=False, driver=DriverFiles({}))
    assert known.level is FenceLevel.NONE
    assert "a driver" in known.missing
    assert "missing: a driver" in known.why


def test_a_driver_with_functions_that_the_table_lacks_lowers_the_level_and_is_listed(
    tmp_path: Path,
) -> None:
    """The simulated driver with one of its names changed in place plays the newer one."""
    newer = driver(tmp_path)
    path = newer.files[CUDA][0]
    content = path.read_bytes()
    assert content.count(b"\0cuDeviceGetCount\0") >= 1
    path.write_bytes(content.replace(b"\0cuDeviceGetCount\0", b"\0cuDeviceFromWXYZ\0"))
    known = survey_fence(own_pool=False, simulated=False, driver=newer)
    assert known.level is FenceLevel.ADVISORY
    assert "cuDeviceFromWXYZ" in known.unclassified
    assert known.list_facts()["unclassified_count"] >= 1
    assert str(path) in known.way


def test_who_may_mount_is_read_from_the_kernels_word(tmp_path: Path) -> None:
    status = tmp_path / "self" / "status"
    status.parent.mkdir()
    for capabilities, may in (
        ("000001ffffffffff", True),
        ("0000000000200000", True),
        ("00000000a80425fb", False),
    ):
        status.write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
        assert can_mount(tmp_path) is may
