"""Server and agent killed while a partition is cut, held or given back: no piece is taken twice and
none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import (
    ENDED,
    arm,
    await_state,
    check_at_rest,
    job_body,
    kill_around_commit,
    run_times,
)

pytestmark = pytest.mark.root


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xH200:mig") as made:
        yield made


def partition(pool: FaultPool, script: str) -> dict[str, Any]:
    return job_body(pool, script) | {"shape": {"profile": "4g"}}


@kill_around_commit
def test_a_piece_that_was_being_cut_is_cut_once_or_not_at_all(pool: FaultPool, step: str) -> None:
    arm(pool, step, "job.placed")
    with pool.api() as api:
        api.request("POST", "jobs", partition(pool, "exit 0"))
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    pool.up()
    assert await_state(pool, *ENDED)["state"] == "done"
    assert run_times(pool) == 1
    check_at_rest(pool)
    assert [row["pieces"] for row in pool.rows("SELECT pieces FROM devices")] == [None]


@kill_around_commit
def test_a_piece_that_was_being_given_back_can_be_cut_again(pool: FaultPool, step: str) -> None:
    arm(pool, step, "job.ended")
    with pool.api() as api:
        api.request("POST", "jobs", partition(pool, "exit 0"))
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    pool.up()
    assert await_state(pool, *ENDED)["state"] == "done"
    check_at_rest(pool)
    second = partition(pool, "exit 0") | {"name": "second"}
    with pool.api() as api:
        api.request("POST", "jobs", second)
        until(lambda: api.request("GET", "jobs/second")["state"] == "done", "the second job's end")
    assert invariants.books(pool) == []
