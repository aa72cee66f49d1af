"""What is asked of an image, and the program that asks: in place, whole, and of this gpupool."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gpupool_native
from gpupool.base.errors import NativeMissing
from gpupool.mechanisms.driver import image_check
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)


def named(library: Path) -> tuple[int, int]:
    """The newest version of glibc by binutils."""
    listed = subprocess.run(
        ["readelf", "-VW", library], capture_output=True, text=True, check=True
    ).stdout
    return max(
        (int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", listed)
    )


def test_the_version_that_is_needed_is_the_newest_that_our_libraries_name(tmp_path: Path) -> None:
    ours, behind = find_templates(), find_simulated_libraries()
    assert ours is not None
    assert behind is not None
    fence = [*ours.glob("lib*.so.*")]
    for simulated, libraries in ((False, fence), (True, [*fence, *behind.glob("lib*.so.*")])):
        assert [image_check.find_needed_glibc(library) for library in libraries] == [
            named(library) for library in libraries
        ]
        _, code, version = image_check.build_image_check(tmp_path, simulated=simulated)
        assert (code, version) == ("GP-2018", "{}.{}".format(*max(map(named, libraries))))


def test_the_program_is_put_in_place_once_and_replaced_where_it_is_another(tmp_path: Path) -> None:
    program = Path(image_check.build_image_check(tmp_path, simulated=True)[0])
    assert program.is_relative_to(tmp_path)
    assert program.stat().st_mode & 0o777 == 0o755
    before = program.stat().st_ino
    assert Path(image_check.build_image_check(tmp_path, simulated=True)[0]).stat().st_ino == before
    program.write_bytes(b"of an older gpupool")
    image_check.build_image_check(tmp_path, simulated=True)
    assert subprocess.run([program], capture_output=True, check=False).stderr.startswith(
        b"usage: gpupool-hook"
    )
    assert [path.name for path in program.parent.iterdir()] == [program.name]


def test_without_the_program_nothing_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool_native.hook_path", lambda: tmp_path / "nowhere")
    with pytest.raises(NativeMissing, match="no program that looks at images"):
        image_check.build_image_check(tmp_path, simulated=True)


def test_the_program_needs_nothing_of_the_host() -> None:
    from gpupool_native import hook_path

    listed = subprocess.run(
        ["readelf", "-lW", hook_path()], capture_output=True, text=True, check=True
    ).stdout
    assert "INTERP" not in listed


def test_containers_that_start_at_once_all_find_the_whole_program(tmp_path: Path) -> None:
    def install(number: int) -> str:
        return image_check.build_image_check(tmp_path / str(number // 8), simulated=True)[0]

    with ThreadPoolExecutor(8) as starts:
        places = [Path(place) for place in starts.map(install, range(240))]
    size = Path(gpupool_native.hook_path()).stat().st_size
    assert {place.stat().st_size for place in places} == {size}
