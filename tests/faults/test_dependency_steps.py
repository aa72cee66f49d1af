"""A server killed just before and just after the commit of an end that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.pool import FaultPool, until
from tests.faults.steps import arm, await_state, job_body, kill_around_commit, run_times


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@pytest.mark.root
@kill_around_commit
def test_what_waits_for_an_end_starts_once_whenever_the_server_is_killed(
    pool: FaultPool, step: str
) -> None:
    pool.up()
    gate = pool.paths.root.parent / "gate"
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, f"while [ ! -e {gate} ]; do sleep 0.1; done"))
        for name, condition in (("next", "ok"), ("mend", "fail")):
            waits = job_body(pool, "true") | {"name": name}
            waits["after"] = [{"job": "the-job", "condition": condition}]
            made = api.request("POST", "jobs", waits)["first"]
            assert made["reason"] == f"waits for job the-job to end ({condition})"
    await_state(pool, "running")
    pool.kill_server()
    arm(pool, step, "job.ended")
    gate.touch()
    until(lambda: pool.server_pid() is None, "the server's death")
    pool.up()
    assert await_state(pool, "done", name="next")["after"][0]["outcome"] == "met"
    mend = await_state(pool, "stopped", name="mend")
    assert mend["reason"] == "job the-job ended done; it waited for fail"
    assert run_times(pool) == 2
