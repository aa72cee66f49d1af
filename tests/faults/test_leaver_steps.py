"""A server that is killed at the commits of a handover, and of leavers' jobs that are settled.

Whatever is killed, each job has one owner, its handover is told once, and the books close.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import PoolLost
from tests.faults.pool import FaultPool, until
from tests.faults.steps import arm, await_state, check_at_rest, job_body, kill_around_commit

pytestmark = [pytest.mark.root, pytest.mark.adversary, pytest.mark.nightly]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="2xT4") as made:
        yield made


@kill_around_commit
def test_a_handover_that_is_cut_off_is_carried_on(pool: FaultPool, step: str) -> None:
    pool.up()
    owner = begin(pool)
    pool.kill_server()
    arm(pool, step, "job.handed-over")
    with pool.api() as api, pytest.raises(PoolLost):
        api.request("POST", f"users/{owner}/handover", {"to": "bob"})
    until(lambda: pool.server_pid() is None, "the kill")
    pool.up()
    with pool.api() as api:
        api.request("POST", f"users/{owner}/handover", {"to": "bob"})
        jobs = [api.request("GET", f"jobs/{name}") for name in ("the-job", "other")]
        assert [job["user"] for job in jobs] == ["bob", "bob"]
        again = api.request("POST", f"users/{owner}/handover", {"to": "bob"})
        assert again["units"] == []
        for name in ("the-job", "other"):
            api.request("POST", f"jobs/{name}/stop", {})
    told = pool.rows("SELECT subject FROM events WHERE kind = 'job.handed-over'")
    assert len({row["subject"] for row in told}) == len(told) == 2
    for name in ("the-job", "other"):
        await_state(pool, "stopped", name=name)
    check_at_rest(pool)


def begin(pool: FaultPool) -> str:
    """Run two jobs; return the user that owns them."""
    with pool.api() as api:
        caller = str(api.request("GET", "whoami")["user"])
        api.request("POST", "users", {"name": "bob", "role": "admin"})
        for name in ("the-job", "other"):
            api.request("POST", "jobs", job_body(pool, "sleep 600") | {"name": name})
    for name in ("the-job", "other"):
        await_state(pool, "running", name=name)
    return caller
