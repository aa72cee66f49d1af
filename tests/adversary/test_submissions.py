"""Jobs that cannot start: each is refused or ends with a reason, and no card stays allocated."""

from __future__ import annotations

import pytest

from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool

pytestmark = pytest.mark.adversary

CANNOT_START = {
    "no-program": (["/nowhere/program"], "/", 127, "No such file or directory"),
    "a-directory": (["/etc"], "/", 126, "Permission denied"),
    "no-directory": (["/bin/true"], "/nowhere", 126, "/nowhere"),
}


@pytest.mark.parametrize("name", CANNOT_START)
def test_a_job_that_cannot_start_ends_and_frees_its_card(pool: RealPool, api: Api, name: str) -> None:
    argv, cwd, exit_code, reason = CANNOT_START[name]
    api.request("POST", "jobs", {"name": name, "shape": {"gpu_milli": 1000}, "launch": {"argv": argv, "cwd": cwd}})
    ended = pool.until_state(name, "failed")
    assert ended["exit_code"] == exit_code, ended
    assert reason in ended["reason"], ended
    assert pool.held_milli() == 0
