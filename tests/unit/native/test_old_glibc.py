"""What is mounted into containers, and the glibc that it finds there.

The versions are read from the files. Real old ones are tried where there are some:
GPUPOOL_OLD_GLIBC names folders, with `:` between them, of which each holds what a distribution's
package does (`dpkg -x libc6_2.31-….deb FOLDER`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpupool_native
from gpupool.mechanisms.driver.container_files import list_mounts
from gpupool.mechanisms.driver.driver_files import (
    DriverLibraries,
    find_simulated_libraries,
    find_templates,
)
from gpupool.mechanisms.driver.installed_driver import DriverFiles
from tests.unit.native.fence_house import MIB, OUT_OF_MEMORY, House
from tests.unit.native.front_pool import SECONDS, compiler

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)
NEWEST = (2, 28)
"""UBI 8's; docs/concepts/kubernetes.md promises it."""
GIVEN = [Path(one) for one in os.environ.get("GPUPOOL_OLD_GLIBC", "").split(":") if one]
NO_OLD_GLIBC = pytest.param(
    None, marks=pytest.mark.skip(reason="no old glibc is named: GPUPOOL_OLD_GLIBC, see this file")
)
SOURCE = Path(__file__).with_name("old_glibc_user.c")
LIMIT, CONTEXT, FITS = 1024 * MIB, 120 * MIB, 512 * MIB
LAUNCHES = 100


def mounted(state: Path) -> Iterator[Path]:
    """Every library that a container with a share of a simulated card gets: of a real card's, ours
    are two of them."""
    libraries = DriverLibraries(state, "/run/gpupool", DriverFiles({}), find_simulated_libraries())
    for mount in list_mounts(libraries, DriverFiles({}), fenced=True):
        yield from mount.source.iterdir() if mount.source.is_dir() else [mount.source]


def versions(library: Path) -> set[str]:
    """The names of versions that the library needs, of whatever other library."""
    listed = subprocess.run(
        ["readelf", "-VW", library], capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"Name: (\S+) +Flags:", listed.partition("Version needs section")[2]))


def too_new(version: str) -> bool:
    """Also whatever is no version of glibc: a container's loader refuses names that it does not
    know."""
    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
    return found is None or (int(found[1]), int(found[2])) > NEWEST


def test_nothing_that_is_mounted_needs_a_newer_glibc_than_is_promised(tmp_path: Path) -> None:
    files = {path: versions(path) for path in mounted(tmp_path)}
    standing_in = ["libcuda.so.1", "libnvidia-ml.so.1"]
    assert sorted(path.name for path in files) == sorted(
        [*standing_in * 2, "libcudart.so.12", "libcudart.so.13"]
    )
    assert all(files.values())
    assert {
        path: wrong
        for path, needed in files.items()
        if (wrong := {one for one in needed if too_new(one)})
    } == {}


def libc_folder(root: Path) -> Path:
    """Where in a package's files the libraries lie."""
    (found,) = {path.parent.resolve() for path in root.rglob("libc.so.6")}
    return found


def build_user(folder: Path, libc: Path) -> Path:
    """As that glibc's own compiler would: linked against nothing newer."""
    program = folder / "old_glibc_user"
    command = [
        compiler(),
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        str(SOURCE),
        "-o",
        str(program),
    ]
    libraries = [str(libc / name) for name in ("libdl.so.2", "libc.so.6")]
    link = ["-nodefaultlibs", *libraries, "-l:libc_nonshared.a", "-lgcc", f"-Wl,-rpath-link={libc}"]
    subprocess.run([*command, *link], check=True)
    return program


@pytest.mark.parametrize("root", GIVEN or [NO_OLD_GLIBC], ids=str)
def test_a_program_with_an_old_glibc_is_held_to_its_share(
    root: Path, house: House, tmp_path: Path
) -> None:
    libc, base = libc_folder(root), house.share(LIMIT)
    (loader,) = libc.glob("ld-linux-*.so.*")
    places = [libc, base / "stand-in", gpupool_native.simgpu_dir()]
    command = [loader, "--library-path", ":".join(map(str, places)), build_user(tmp_path, libc)]
    with subprocess.Popen(
        [*map(str, [*command, FITS // MIB, (LIMIT - FITS) // MIB, LAUNCHES])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"GPUPOOL_SIMGPU": str(house.machine)},
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        said = json.loads(running.stdout.readline())
        used = house.used(base)
        libcs = re.findall(r"/\S+/libc[-.]\S+", Path(f"/proc/{running.pid}/maps").read_text())
        running.stdin.close()
        assert running.wait(SECONDS) == 0
    assert {Path(one).parent for one in libcs} == {libc}
    assert said == {"failed": 0, "driver": OUT_OF_MEMORY, "runtime": OUT_OF_MEMORY, "total": LIMIT}
    assert (used.committed_bytes, used.launches) == (FITS + CONTEXT, LAUNCHES)
