"""Two pools of one user beside each other: what one does at its end is nothing to the jobs of the
other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cuda.jobs import SHARE
from tests.e2e.pool_fixture import RealPool

LOOK = "echo ready; read go; cat /run/gpupool/share/limits | wc -c; ls /run/gpupool/simgpu"


@pytest.mark.root
def test_a_pool_that_is_purged_leaves_another_pools_jobs_their_share(
    pool: RealPool, tmp_path: Path
) -> None:
    job = pool.start("run", *SHARE, "--", "sh", "-c", LOOK, stdin=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    with RealPool(tmp_path / "other", sim="L40S") as other:
        other.do("run", *SHARE, "--", "true")
    printed, errors = job.communicate(b"go\n", timeout=60)
    assert job.returncode == 0, errors
    size, machine = printed.decode().split()
    assert int(size) > 0
    assert machine == "machine"
