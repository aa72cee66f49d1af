"""The placement kernel as the sources have it, built once in a run of the tests with the compiler's
checks."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.scheduling.filtering.native_library import (
    NativeLibrary,
    adopt_native_library,
    find_native_library,
    get_native_library_path,
)
from tests.support.scheduling_builders import cards
from tests.unit.native.fence_build import shared
from tests.unit.native.front_pool import ROOT, compiler

SOURCES = ROOT / "native" / "scheduler"
CHECKED = ("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wvla",
    "-Wformat=2",
    "-Wconversion",
    "-Wno-sign-conversion",
    "-Werror",
)


def compile_kernel(target: Path, *options: str) -> Path:
    """The library; every warning is an error."""
    sources = map(str, sorted(SOURCES.glob("*.c")))
    command = [
        compiler(),
        "-std=c11",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        *WARNINGS,
        *options,
    ]
    subprocess.run([*command, *sources, "-o", str(target)], check=True)
    return target


def _compile_checked(folder: Path) -> None:
    compile_kernel(folder / "kernel.so", *CHECKED)


@pytest.fixture(scope="session")
def kernel_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared(tmp_path_factory, "kernel-c", _compile_checked) / "kernel.so"


@pytest.fixture
def kernel(kernel_library: Path) -> Iterator[NativeLibrary]:
    """The library, adopted for as long as the test runs."""
    before = get_native_library_path()
    assert adopt_native_library(kernel_library)
    found = find_native_library(cards("1x1xT4"), compiled=True)
    assert found is not None
    yield found
    adopt_native_library(before)
