"""Jobs that cannot start: each is refused or ends with a reason, and no card stays allocated."""

from __future__ import annotations

import pytest

from gpupool.base.errors import InvalidBody
from gpupool.client.transport import Api
from tests.e2e.pool_fixture import RealPool

pytestmark = pytest.mark.adversary

CANNOT_START = {
    "no-program": (["/nowhere/program"], "/", 127, "No such file or directory"),
    "a-directory": (["/etc"], "/", 126, "Permission denied"),
    "no-directory": (["/bin/true"], "/nowhere", 126, "/nowhere"),
}


@pytest.mark.parametrize("name", CANNOT_START)
def test_a_job_that_cannot_start_ends_and_frees_its_card(
    pool: RealPool, api: Api, name: str
) -> None:
    argv, cwd, exit_code, reason = CANNOT_START[name]
    api.request(
        "POST",
        "jobs",
        {"name": name, "shape": {"gpu_milli": 1000}, "launch": {"argv": argv, "cwd": cwd}},
    )
    ended = pool.until_state(name, "failed")
    assert ended["exit_code"] == exit_code, ended
    assert reason in ended["reason"], ended
    assert pool.held_milli() == 0


REFUSED = {
    "unknown-limit": {"limits": {"a:b": [1, 2]}},
    "negative-limit": {"limits": {"nofile": [-7, 10]}},
    "limit-of-10^30": {"limits": {"nofile": [10**30, -1]}},
    "soft-above-hard": {"limits": {"nofile": [20, 10]}},
    "relative-directory": {"cwd": "tmp"},
    "variable-without-a-name": {"env": {"=A": "1"}},
    "argument-of-200-kB": {"argv": ["/bin/echo", "ä" * 100_000]},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_node_would_refuse_is_refused_at_submission(
    pool: RealPool, api: Api, name: str
) -> None:
    launch = {"argv": ["/bin/true"], **REFUSED[name]}
    with pytest.raises(InvalidBody) as refused:
        api.request("POST", "jobs", {"name": name, "shape": {"gpu_milli": 1000}, "launch": launch})
    assert refused.value.details["fields"][0]["field"].startswith("launch."), refused.value.details
    assert not [job for job in pool.json("ps", "--all") if job["name"] == name]
    assert pool.held_milli() == 0
