"""What a stand-in finds when it is loaded: its placeholders, its share, and files that are not what
they must be."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.mechanisms.driver.standin import (
    ElfFile,
    NotAStandIn,
    fill_placeholders,
    list_unclassified,
    make_standin,
)
from tests.unit.native.fence_build import shared
from tests.unit.native.fence_share import LIMITS, SRC, compile_c, make_share
from tests.unit.native.front_pool import compiler

TEMPLATES = ("libcuda.so.1", "libnvidia-ml.so.1")


class Region(ctypes.Structure):
    """`struct fence_region`."""

    _fields_ = (
        ("limits", ctypes.c_void_p),
        ("grants", ctypes.c_void_p),
        ("usage", ctypes.c_void_p),
        ("timelines", ctypes.c_void_p),
        ("base", ctypes.c_char * 512),
    )


@pytest.fixture(scope="session")
def region_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    def build(made: Path) -> None:
        compile_c(made / "region.so", [SRC / "process/region.c"], "-fPIC", "-shared")

    folder = shared(tmp_path_factory, "fence-region", build)
    return ctypes.CDLL(str(folder / "region.so"))


def mapped(library: ctypes.CDLL, base: Path, other: Path | None = None) -> str:
    """ "" when the region was mapped, else why not."""
    why = ctypes.create_string_buffer(768)
    other_path = None if other is None else os.fsencode(other)
    done = library.region_map(ctypes.byref(Region()), os.fsencode(base), other_path, why, 768) & 1
    assert done or why.value
    return "" if done else why.value.decode()


def test_a_share_is_mapped_from_its_base_directory(
    region_library: ctypes.CDLL, tmp_path: Path
) -> None:
    assert mapped(region_library, make_share(tmp_path)) == ""


@pytest.mark.parametrize("below", ["", "share"])
def test_without_limits_at_the_base_the_named_share_counts(
    below: str, region_library: ctypes.CDLL, tmp_path: Path
) -> None:
    share = make_share(tmp_path / "elsewhere")
    assert mapped(region_library, tmp_path / "nothing", share / below) == ""


def test_a_damaged_share_at_the_base_is_not_passed_over_for_a_named_one(
    region_library: ctypes.CDLL, tmp_path: Path
) -> None:
    base, other = make_share(tmp_path / "base"), make_share(tmp_path / "other")
    (base / regions.LIMITS_FILE).write_bytes(b"")
    assert "cut short" in mapped(region_library, base, other)


def limits_with(**changes: int) -> Callable[[Path], None]:
    def change(base: Path) -> None:
        page = regions.CLimits.from_buffer_copy(regions.encode_limits(LIMITS))
        for name, value in changes.items():
            setattr(page.device[0] if name == "memory_bytes" else page, name, value)
        (base / regions.LIMITS_FILE).write_bytes(bytes(page))

    return change


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda base: os.truncate(base / name, size)


def removed(name: str) -> Callable[[Path], None]:
    return lambda base: (base / name).unlink()


def written(name: str, at: int, content: bytes) -> Callable[[Path], None]:
    def change(base: Path) -> None:
        with open(base / name, "r+b") as file:
            file.seek(at)
            file.write(content)

    return change


def folder(name: str) -> Callable[[Path], None]:
    def change(base: Path) -> None:
        (base / name).unlink()
        (base / name).mkdir()

    return change


FILES = (regions.LIMITS_FILE, regions.GRANTS_FILE, regions.USAGE_FILE)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (removed(regions.LIMITS_FILE), "no limits of a share at"),
        (removed(regions.GRANTS_FILE), "No such file"),
        (removed(regions.USAGE_FILE), "No such file"),
        *((cut(name, 0), "cut short: 0 bytes") for name in FILES),
        *((cut(name, 100), "cut short: 100 bytes") for name in FILES),
        (cut(regions.USAGE_FILE, regions.USAGE_BYTES - 1), "cut short"),
        *((written(name, 0, b"GPPLIMS?"), "does not begin as such a file does") for name in FILES),
        *((written(name, 8, b"\2"), "has layout 2, this fence knows layout 1") for name in FILES),
        *((written(name, 12, b"\xff\xff"), "it says") for name in FILES),
        *((folder(name), f"/{name}") for name in FILES),
        (limits_with(device_count=0), "name 0 cards"),
        (limits_with(device_count=17), "name 17 cards"),
        (limits_with(slots=0), "admit 0 processes"),
        (limits_with(slots=1025), "admit 1025 processes"),
        (limits_with(memory_bytes=0), "give 0 bytes of card 0"),
    ],
)
def test_what_is_no_share_is_refused_with_the_reason(
    damage: Callable[[Path], None], said: str, region_library: ctypes.CDLL, tmp_path: Path
) -> None:
    base = make_share(tmp_path)
    damage(base)
    assert said in mapped(region_library, base)


def test_random_bytes_in_place_of_any_file_are_refused(
    region_library: ctypes.CDLL, tmp_path: Path
) -> None:
    for name in FILES:
        base = make_share(tmp_path / name.replace("/", "-"))
        (base / name).write_bytes(os.urandom(regions.USAGE_BYTES))
        assert "damaged" in mapped(region_library, base)


# The placeholders ---------------------------------------------------------------------------------------


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> Path:
    return gpupool_native.fence_dir() / str(request.param)


def test_a_copy_names_the_driver_by_its_absolute_path_and_has_the_drivers_name(
    template: Path, tmp_path: Path
) -> None:
    driver, target = tmp_path / "driver" / template.name, tmp_path / "copy"
    make_standin(template, driver, "/run/gpupool", target)
    shown = subprocess.run(
        ["readelf", "-dW", target], text=True, capture_output=True, check=True
    ).stdout
    assert f"Shared library: [{driver}]" in shown
    assert f"soname: [{template.name}]" in shown
    assert os.fsencode(driver) in ElfFile(target.read_bytes()).list_needed()
    assert b"/run/gpupool\0" in target.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o644


def test_the_copy_in_use_is_left_alone_when_it_is_made_again(
    template: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    make_standin(template, Path("/a/driver"), "/base", target)
    first = target.stat()
    make_standin(template, Path("/a/driver"), "/base", target)
    assert target.stat().st_ino == first.st_ino
    make_standin(template, Path("/another/driver"), "/base", target)
    assert target.stat().st_ino != first.st_ino
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("driver", "base", "said"),
    [
        (b"relative/libcuda.so.1", b"/base", "must be absolute"),
        (b"/driver", b"base", "must be absolute"),
        (b"/" + b"d" * 600, b"/base", "there is room for 512"),
        (b"/driver", b"/" + b"b" * 300, "there is room for 255"),
        (b"/dri\0ver", b"/base", "there is room for"),
    ],
)
def test_paths_that_do_not_fit_are_refused(
    driver: bytes, base: bytes, said: str, template: Path
) -> None:
    with pytest.raises(NotAStandIn, match=said):
        fill_placeholders(template.read_bytes(), driver, base)


def test_the_longest_paths_fit(template: Path) -> None:
    driver, base = b"/" + b"d" * 511, b"/" + b"b" * 254
    filled = fill_placeholders(template.read_bytes(), driver, base)
    assert driver in ElfFile(filled).list_needed()
    assert len(filled) == template.stat().st_size


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b[:63], lambda b: b"\x7fELF" + b[8:], lambda b: b[:2000]]
)
def test_what_is_no_template_is_refused(damage: Callable[[bytes], bytes], template: Path) -> None:
    with pytest.raises(NotAStandIn):
        fill_placeholders(damage(template.read_bytes()), b"/driver", b"/base")


def test_a_copy_is_no_template(template: Path) -> None:
    copy = fill_placeholders(template.read_bytes(), b"/driver", b"/base")
    with pytest.raises(NotAStandIn, match="was filled in before"):
        fill_placeholders(copy, b"/driver", b"/base")


def test_functions_of_a_newer_driver_are_listed(template: Path, tmp_path: Path) -> None:
    prefix = "nvml" if "nvidia-ml" in template.name else "cu"
    source = tmp_path / "driver.c"
    names = [
        f"{prefix}BrandNew",
        f"{prefix}lowercase",
        f"{prefix}Init",
        f"{prefix}Init_v2",
        "other",
    ]
    known = {"cuInit", "nvmlInit", "nvmlInit_v2"}
    names = [name for name in names if name in known or not name.startswith(f"{prefix}Init")]
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
    driver = tmp_path / template.name
    subprocess.run([compiler(), "-shared", "-fPIC", str(source), "-o", str(driver)], check=True)
    assert list_unclassified(template, driver) == (f"{prefix}BrandNew",)


def test_an_unprepared_template_cannot_be_loaded(template: Path) -> None:
    with pytest.raises(OSError, match="GPUPOOL-FENCE-DRIVER"):
        ctypes.CDLL(str(template))
