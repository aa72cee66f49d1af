"""The server killed between the first word of a start and the start: each word outlives it, and
counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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

pytestmark = [pytest.mark.root, pytest.mark.adversary]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


def words(pool: FaultPool, table: str) -> list[str]:
    return [row["claim"] for row in pool.rows(f"SELECT claim FROM {table}")]


def counted(pool: FaultPool) -> list[tuple[int, int]]:
    return [
        (row["kept"], row["missed"]) for row in pool.rows("SELECT kept, missed FROM start_tallies")
    ]


@kill_around_commit
@pytest.mark.parametrize("table", ["promises", "estimates"])
def test_a_start_that_was_told_counts_once_whenever_the_server_dies(
    pool: FaultPool, table: str, step: str
) -> None:
    holder = job_body(pool, "exit 0") | {
        "name": "holder",
        "shape": {"gpu_milli": 1000},
        "max_seconds": 1800,
    }
    holder["launch"] = holder["launch"] | {"argv": ["sleep", "600"]}
    body = job_body(pool, "exit 0") | {"max_seconds": 60, "preemptible": table == "estimates"}
    pool.up()
    with pool.api() as api:
        api.request("POST", "jobs", holder)
        told = api.request("POST", "jobs", body)["first"]
    until(lambda: words(pool, table) == [told["id"]], "the word of its start")
    until(lambda: len(pool.supervisors()) == 1, "the holder's start")
    pool.kill_server()
    assert (words(pool, table), counted(pool)) == ([told["id"]], [])
    arm(pool, step, "job.placed")
    with pool.api() as api:
        api.request("POST", "jobs/holder/stop", {"grace_seconds": 0})
    until(lambda: pool.server_pid() is None, "the server's death")
    kept = step == "after-commit"
    assert (words(pool, table), counted(pool)) == (
        [] if kept else [told["id"]],
        [(1, 0)] if kept else [],
    )
    pool.up()
    assert await_state(pool, *ENDED)["state"] == "done"
    assert (words(pool, "promises"), words(pool, "estimates"), counted(pool)) == ([], [], [(1, 0)])
    assert run_times(pool) == 1
    check_at_rest(pool)
