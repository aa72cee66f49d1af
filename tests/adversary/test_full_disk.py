"""A pool on a disk that is really full: what is there can still be stopped, freed and removed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import DiskFull
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted, which root may"),
]


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB of its own."""
    point, image = tmp_path / "disk", tmp_path / "image"
    point.mkdir()
    if request.param == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(point)]
    else:
        image.touch()
        os.truncate(image, 64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        mount = ["mount", "-o", "loop", str(image), str(point)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this root may not mount: {done.stderr}")
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


def fill(disk: Path) -> None:
    """Take the last block."""
    with open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def filled_pool(disk: Path, jobs: int) -> RealPool:
    """A pool with so many running jobs, whose disk is full."""
    pool = RealPool(disk / "pool", "1xL40S")
    pool.up("--sim", "1xL40S")
    for n in range(jobs):
        pool.do("submit", "--gpu", "0.2", "--name", f"job-{n}", "--", "sleep", "600")
        pool.until_state(f"job-{n}", "running")
    fill(disk)
    return pool


def test_on_a_full_disk_jobs_stop_and_free_their_shares_and_nothing_else_is_taken_in(
    disk: Path,
) -> None:
    pool = filled_pool(disk, 3)
    with Api(ClientSettings(state_dir=str(pool.state_dir))) as api:
        body = {"shape": {"gpu_milli": 100}, "launch": {"argv": ["true"]}}
        refused = 0
        for _ in range(400):  # at most what the reserve leaves to others
            try:
                api.request("POST", "jobs", body)
            except DiskFull:
                refused += 1
                break
        assert refused, "a full disk took in 400 jobs"
        pool.do("stop", "job-0", "--grace", "1s")
        assert pool.job("job-0")["state"] == "stopped"
        pool.do("stop", "--all", "--yes", "--grace", "1s")
        pool.until(lambda: pool.held_milli() == 0, "every share given back")
    pool.do("down", "--purge", "--yes", "--grace", "1s")
    assert not pool.state_dir.exists()


def test_a_full_disk_is_freed_by_down_and_by_an_offline_purge(disk: Path) -> None:
    pool = filled_pool(disk, 1)
    pid = pool.server_pid()
    handle = os.pidfd_open(pid)
    os.kill(pid, 9)
    pool.until(
        lambda: subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode,
        "its death",
    )
    os.close(handle)
    fill(disk)
    assert "1 jobs ended" in pool.do("down", "--purge", "--yes")
    assert not pool.state_dir.exists()
    (disk / "filler").unlink()
    again = filled_pool(disk, 1)
    again.do("down", "--yes", "--grace", "1s")
    fill(disk)
    again.do("down", "--purge", "--yes")
    assert not again.state_dir.exists()


def test_a_full_disk_refuses_a_new_pool_with_numbers_and_keeps_nothing_of_it(disk: Path) -> None:
    fill(disk)
    pool = RealPool(disk / "pool", "1xL40S")
    for words in (["up", "-d"], ["up"]):
        refused = pool.run(*words, "--sim", "1xL40S")
        assert refused.returncode == 7
        assert re.search(
            r"GP-5006: no pool was made: it needs \d+ MiB, and 0 MiB are free at .*\n  free \d+ MiB",
            refused.stderr,
        ), refused.stderr
        assert not pool.state_dir.exists()
    (disk / "filler").unlink()
    with pool:
        assert pool.json("gpus")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["told to stop", "killed"])
def test_a_pool_starts_again_on_a_full_disk_and_says_so_and_its_jobs_can_be_stopped(
    disk: Path, how: str
) -> None:
    pool = RealPool(disk / "pool", "1xL40S")
    pool.up("--sim", "1xL40S")
    try:
        pool.do("submit", "--gpu", "0.2", "--name", "runs", "--", "sleep", "600")
        pool.until_state("runs", "running")
        number = signal.SIGTERM if how == "told to stop" else signal.SIGKILL
        pid = pool.server_pid()
        os.kill(pid, number)
        pool.until(lambda: not is_there(pid), "its end")
        fill(disk)
        assert re.search(r"wrong +space: \d+ MiB free at .*; free some space", pool.up())
        assert pool.job("runs")["state"] == "running"
        pool.do("stop", "runs", "--grace", "1s")
        pool.until(lambda: pool.held_milli() == 0, "the share given back")
        (disk / "filler").unlink()
        pool.until(
            lambda: pool.run("run", "--gpu", "1", "--", "true").returncode == 0,
            "jobs being taken in again",
        )
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
