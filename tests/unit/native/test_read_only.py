"""What makes a directory read-only for a program: real mounts in a namespace of the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.native.front_pool import NATIVE, SANITIZERS, compile_front

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def has_namespaces() -> bool:
    done = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not has_namespaces(), reason="no user namespaces here")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("guard") / "gpupool-read-only"
    compile_front(made, "-D_GNU_SOURCE", *SANITIZERS, sources=[NATIVE / "init/read_only.c"])
    return made


def run(program: Path, directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Mount a directory on itself, one below it and one beside it; then the script, protected."""
    mounts = f"""
        set -e
        mkdir -p {directory} {directory}-beside
        mount -t tmpfs none {directory}
        mkdir "{directory}/a b"
        mount -t tmpfs -o nosuid,nodev,noexec none "{directory}/a b"
        mount -t tmpfs none {directory}-beside
        exec {program} {directory} /bin/sh -c '{script}'
    """
    return subprocess.run(
        [*NAMESPACE, "sh", "-c", mounts], capture_output=True, text=True, check=False, timeout=20
    )


def test_the_directory_and_mounts_below_it_are_read_only(program: Path, tmp_path: Path) -> None:
    place = tmp_path / "tree"
    script = f"""
        touch {place}/x && echo written above
        touch "{place}/a b/x" && echo written below
        touch {place}-beside/x && echo written beside
        grep {place.name}/a /proc/self/mounts
    """
    done = run(program, place, script)
    first, below = done.stdout.splitlines()
    assert first == "written beside"
    # Options that a mount had are still there.
    assert "ro,nosuid,nodev,noexec" in below
    assert done.stderr.count("Read-only file system") == 2


def test_the_exit_code_is_the_programs(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path / "tree", "exit 7").returncode == 7


def test_a_program_that_is_not_there_is_podmans_own_failure(program: Path) -> None:
    done = subprocess.run(
        [program, "/nothing", "/bin/nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 125
    assert done.stderr == "gpupool: cannot run /bin/nothing: No such file or directory\n"


def test_a_mount_that_cannot_be_changed_starts_nothing(program: Path) -> None:
    # Without a user namespace of its own, an ordinary user may not change mounts.
    other = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*other, program, "/proc", "/bin/echo", "started"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "gpupool: cannot make read-only /proc: Operation not permitted\n"
