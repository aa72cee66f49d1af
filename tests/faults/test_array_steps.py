"""The server killed inside each write of an array's life: no member runs twice, and none is
lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import (
    arm,
    check_at_rest,
    job_body,
    kill_around_commit,
    killed_by,
    run_times,
    states_of,
)

pytestmark = [pytest.mark.root, pytest.mark.adversary]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def array_body(pool: FaultPool, script: str, size: int) -> dict[str, Any]:
    return job_body(pool, script) | {"array": size, "shape": {"gpu_milli": 1000}}


@kill_around_commit
def test_a_repeated_submission_gets_its_one_array(pool: FaultPool, step: str) -> None:
    arm(pool, step, "job.submitted")
    body = array_body(pool, "exit 0", 3)
    killed_by(pool, "POST", "jobs", body, idempotency_key="the-key")
    kept = pool.rows("SELECT public_id FROM arrays")
    assert len(kept) == (0 if step == "before-commit" else 1)
    pool.up()
    with pool.api() as api:
        told = api.request("POST", "jobs", body, idempotency_key="the-key")
    assert (told["count"], told["array"]) == (3, "the-job")
    until(lambda: states_of(pool) == ["done"] * 3, "the array's end")
    assert run_times(pool) == 3
    (row,) = pool.rows("SELECT * FROM arrays")
    assert (row["made"], row["done"], row["launch"]) == (3, 3, None)
    check_at_rest(pool)


@kill_around_commit
def test_a_member_that_was_being_placed_is_one_job_and_runs_once(
    pool: FaultPool, step: str
) -> None:
    go = pool.paths.root.parent / "go"
    pool.up()
    script = f'test "$GPUPOOL_ARRAY_INDEX" != 0 || until test -e {go}; do sleep 0.02; done'
    with pool.api() as api:
        api.request("POST", "jobs", array_body(pool, script, 3))
    until(lambda: states_of(pool) == ["running"], "the first member's start")
    pool.kill_server()
    arm(pool, step, "job.placed")
    go.touch()
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    assert states_of(pool) == (["done"] if step == "before-commit" else ["done", "starting"])
    pool.up()
    until(lambda: states_of(pool) == ["done"] * 3, "the array's end")
    assert run_times(pool) == 3
    assert [
        row["array_index"] for row in pool.rows("SELECT array_index FROM jobs ORDER BY array_index")
    ] == [0, 1, 2]
    check_at_rest(pool)


@kill_around_commit
@pytest.mark.parametrize("event", ["array.stopped", "node"])
def test_a_stop_that_was_cut_off_is_repeated_and_ends_all(
    pool: FaultPool, step: str, event: str
) -> None:
    pool.up()
    with pool.api() as api:
        api.request("POST", "jobs", array_body(pool, "exec sleep 600", 1_000_000))
    until(lambda: states_of(pool) == ["running"], "the first member's start")
    pool.kill_server()
    arm(pool, step, event)
    with pool.api() as api, contextlib.suppress(ServiceUnavailable):
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0}, idempotency_key="stop")
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    pool.up()
    done = (event, step) == (
        "node",
        "after-commit",
    )  # the last of its transactions, and the key with it
    with pool.api() as api:
        if not done:
            api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0}, idempotency_key="stop")
        until(lambda: states_of(pool) == ["stopped"], "the end of the member that ran")
        shown = api.request("GET", "arrays/the-job")
    assert shown["states"] == {"stopped": 1_000_000}
    assert run_times(pool) == 1
    check_at_rest(pool)
