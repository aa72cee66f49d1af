"""Whose CUDA driver a job finds. A real driver's place is played by the simulated one in a
directory of the test's."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor.client import BindMount
from gpupool.mechanisms.driver import driver_files
from gpupool.mechanisms.driver.driver_files import (
    DriverLibraries,
    find_simulated_libraries,
    find_templates,
)
from gpupool.mechanisms.driver.installed_driver import (
    CUDA,
    NVML,
    DriverFiles,
    find_installed_driver,
)
from gpupool.mechanisms.driver.standin import ElfFile
from tests.support.supervised import Jobs, supervised_jobs

pytestmark = pytest.mark.skipif(
    find_templates() is None or find_simulated_libraries() is None,
    reason="gpupool-native is installed without its fence",
)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A library directory with a driver as distributions lay it out: a versioned file and two
    links."""
    source, place = find_simulated_libraries(), tmp_path / "host"
    assert source is not None
    place.mkdir()
    shutil.copy(source / CUDA, place / "libcuda.so.555.42")
    (place / CUDA).symlink_to("libcuda.so.555.42")
    (place / "libcuda.so").symlink_to(CUDA)
    return place


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


def test_the_files_behind_the_names_are_found_once_whatever_leads_to_them(
    host: Path, tmp_path: Path
) -> None:
    (tmp_path / "again").symlink_to(host)
    found = find_installed_driver([str(host), str(tmp_path / "again"), "/nowhere"], None)
    assert found.files == {CUDA: (host / "libcuda.so.555.42",)}


def test_a_driver_that_is_installed_later_is_found(host: Path, tmp_path: Path) -> None:
    cache, written = tmp_path / "ld.so.cache", tmp_path / "ld.so.cache~"
    assert find_installed_driver((), cache).files == {}
    cache.write_bytes(b"header\0/usr/lib/libother.so.1\0")
    assert find_installed_driver((), cache).files == {}
    # As ldconfig(8) does: another file takes the name.
    written.write_bytes(cache.read_bytes() + bytes(host / CUDA) + b"\0")
    written.rename(cache)
    assert find_installed_driver((), cache).files == {CUDA: (host / "libcuda.so.555.42",)}
    cache.unlink()
    assert find_installed_driver((), cache).files == {}


def test_files_of_another_kind_are_not_taken_for_a_driver(host: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    content = bytearray((host / CUDA).read_bytes()[:64])
    content[4] = 1  # a 32-bit file
    (other / CUDA).write_bytes(content)
    (other / NVML).write_text("not ELF")
    assert find_installed_driver([str(other)], None).files == {}


def test_over_a_real_driver_every_file_is_covered_and_the_driver_stays_reachable(
    host: Path, tmp_path: Path
) -> None:
    made = DriverLibraries(
        tmp_path / "state", "/run/gpupool", find_installed_driver([str(host)], None), None
    )
    sight = made.plan_fenced()
    assert [(mount.source, mount.target) for mount in sight.mounts] == [
        (made.root / "driver", "/run/gpupool/driver"),
        (host / "libcuda.so.555.42", f"/run/gpupool/driver/{CUDA}"),
        (made.root / "lib" / CUDA, str(host / "libcuda.so.555.42")),
    ]
    assert (
        ElfFile((made.root / "lib" / CUDA).read_bytes()).list_needed()[0]
        == f"/run/gpupool/driver/{CUDA}".encode()
    )
    assert ElfFile((made.root / "direct" / CUDA).read_bytes()).list_needed()[0] == os.fsencode(
        host / "libcuda.so.555.42"
    )
    assert sight.library_path == (str(made.root / "direct"),)
    assert (
        DriverLibraries(
            tmp_path / "state", "/run/gpupool", find_installed_driver([str(host)], None), None
        )
        .plan_bare()
        .mounts
        == ()
    )


def test_another_driver_gets_a_directory_of_its_own(host: Path, tmp_path: Path) -> None:
    def root() -> Path:
        return DriverLibraries(
            tmp_path, "/run/gpupool", find_installed_driver([str(host)], None), None
        ).root

    before = root()
    assert root() == before
    (host / CUDA).unlink()
    (host / "libcuda.so.555.42").rename(host / "libcuda.so.560.1")
    (host / CUDA).symlink_to("libcuda.so.560.1")
    assert root() != before


def test_bound_over_the_drivers_file_the_stand_in_is_what_a_job_opens_by_any_name(
    host: Path, tmp_path: Path, jobs: Jobs
) -> None:
    """Without limits it refuses cuInit: it fails closed, whatever name it was opened by."""
    base = Path(f"/tmp/gpupool-driver-{os.getuid()}-{os.getpid()}")
    sight = DriverLibraries(
        tmp_path / "state", str(base), find_installed_driver([str(host)], None), None
    ).plan_fenced()
    (tmp_path / "share").mkdir()
    program = (
        "import ctypes, sys\n"
        "for name in sys.argv[1:]:\n"
        "    print(ctypes.CDLL(name).cuInit(0))\n"
        "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libcuda' in line}))\n"
    )
    names = [str(host / name) for name in ("libcuda.so.555.42", CUDA, "libcuda.so")]
    try:
        record, output = jobs.run(
            *(sys.executable, "-c", program, *names),
            share_directory=str(tmp_path / "share"),
            share_mount=str(base / "share"),
            binds=tuple(
                BindMount(str(one.source), one.target, one.writable) for one in sight.mounts
            ),
        )
        if record.share != "mounted":
            pytest.skip(f"no private mounts here: {record.share_refused}")
        lines = output.decode().splitlines()
        assert [line for line in lines if line.isdigit()] == ["802"] * 3, (
            "CUDA_ERROR_SYSTEM_NOT_READY"
        )
        assert set(lines[-1].split()) == {
            str(host / "libcuda.so.555.42"),
            str(base / "driver" / CUDA),
        }
    finally:
        for point in (*base.iterdir(), base):
            point.rmdir()


def test_a_kill_while_the_directory_is_made_leaves_nothing_that_is_used(
    host: Path, tmp_path: Path
) -> None:
    made = DriverLibraries(tmp_path, "/run/gpupool", find_installed_driver([str(host)], None), None)
    half = made.root.with_name(f"{made.root.name}.new")
    (half / "lib").mkdir(parents=True)
    (half / "lib" / CUDA).write_text("half")
    made.plan_fenced()
    assert (made.root / "lib" / CUDA).stat().st_size > 1000
    assert not half.exists()


def test_every_library_of_ours_is_known_for_looking_into_processes(tmp_path: Path) -> None:
    made = DriverLibraries(tmp_path, "/run/gpupool", DriverFiles({}), find_simulated_libraries())
    made.plan_fenced()
    ours = {path.stat().st_ino for path in made.root.glob(f"*/{CUDA}")}
    assert ours
    assert ours <= driver_files.list_known_drivers(tmp_path)


def test_the_hosts_driver_is_known_also_where_its_root_is_mounted_elsewhere(
    host: Path, tmp_path: Path
) -> None:
    """As for the agent of a Kubernetes node: its containers map the host's driver."""
    root = tmp_path / "root"
    (root / "usr").mkdir(parents=True)
    host.rename(root / "usr/lib64")
    driver = (root / "usr/lib64/libcuda.so.555.42").stat().st_ino
    assert driver in driver_files.list_known_drivers(tmp_path, root)
    assert driver not in driver_files.list_known_drivers(tmp_path)


def test_a_library_that_is_renamed_meanwhile_hides_no_other(tmp_path: Path) -> None:
    before = driver_files.list_known_drivers(tmp_path)
    for name, target in (("made", sys.executable), ("made.new", tmp_path / "gone")):
        library = tmp_path / "fence" / name / "lib/libcuda.so.1"
        library.parent.mkdir(parents=True)
        library.symlink_to(target)
    found = driver_files.list_known_drivers(tmp_path)
    assert found - before == {os.stat(sys.executable).st_ino}
