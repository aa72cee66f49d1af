"""Small things that a person reads: each is said once, and is so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpupool.agent.supervisor.cgroups import detect_cgroups
from tests.e2e.pool_fixture import RealPool

pytestmark = pytest.mark.adversary


def test_an_error_of_a_foreground_start_is_said_once(pool: RealPool, tmp_path: Path) -> None:
    done = pool.run("up", "--sim", "4xL40S")
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("already running") == 1, done.stdout + done.stderr
    (tmp_path / "foreign").write_text("not a pool's")
    done = pool.run("up", "--state-dir", str(tmp_path))
    assert (done.stdout + done.stderr).count("GP-5003") == 1, done.stdout + done.stderr


def test_the_doctor_that_tries_the_fence_does_not_suggest_to(pool: RealPool) -> None:
    assert "gpupool doctor --fence" in pool.run("doctor").stdout
    assert "gpupool doctor --fence" not in pool.run("doctor", "--fence").stdout


def test_the_fence_of_a_job_that_has_not_started_is_unknown(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--array", "5", "--name", "many", "--", "sleep", "60")
    waiting = pool.until(
        lambda: [job for job in pool.json("ps") if job["state"] == "pending"], "one that waits"
    )
    shown = pool.do("show", waiting[0]["name"])
    assert [line.split()[-1] for line in shown.splitlines() if line.split()[:1] == ["fence"]] == [
        "--"
    ], shown
    pool.do("stop", "many", "--grace", "0s")


def test_a_job_out_of_host_memory_says_so_with_its_limit(pool: RealPool) -> None:
    if detect_cgroups(uid=os.geteuid()).kind == "none":
        pytest.skip("no cgroup may be used here: nothing holds a job to its host memory")
    hungry = "x = bytearray(512 << 20); import time; time.sleep(600)"
    pool.do(
        "submit",
        "--gpu",
        "0.1",
        "--host-memory",
        "96MiB",
        "--name",
        "hungry",
        "--",
        sys.executable,
        "-c",
        hungry,
    )
    ended = pool.until_state("hungry", "failed")
    assert ended["reason"].startswith("out of host memory: it reached its limit of 96 MiB"), ended
