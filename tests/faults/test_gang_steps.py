"""The server killed inside each write of a gang's life: it starts, leaves and ends whole, and the
books close."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable
from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import (
    arm,
    check_at_rest,
    gang_body,
    job_body,
    kill_around_commit,
    quick,
    run_times,
    states_of,
)

pytestmark = [pytest.mark.root, pytest.mark.adversary]
WHOLE = {"shape": {"gpu_milli": 1000}}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@kill_around_commit
def test_a_gang_that_was_being_placed_starts_once_and_whole(pool: FaultPool, step: str) -> None:
    pool.up()
    with pool.api() as api:
        api.request(
            "POST",
            "jobs",
            job_body(pool, "exec sleep 600") | {"name": "holder", "shape": {"gpu_milli": 1000}},
        )
        api.request("POST", "jobs", gang_body(pool, "exit 0"))
    until(lambda: len(pool.supervisors()) == 1, "the holder's start")
    pool.kill_server()
    arm(pool, step, "job.placed")
    with pool.api() as api:
        api.request("POST", "jobs/holder/stop", {"grace_seconds": 0})
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    assert states_of(pool) == (["pending"] * 2 if step == "before-commit" else ["starting"] * 2)
    pool.up()
    until(lambda: states_of(pool) == ["done"] * 2, "the gang's end")
    assert run_times(pool) == 3
    check_at_rest(pool)


@kill_around_commit
@pytest.mark.parametrize("event", ["job.preempted", "job.requeued"])
def test_a_gang_that_was_being_preempted_leaves_whole_and_comes_back_whole(
    pool: FaultPool, step: str, event: str
) -> None:
    quick(pool)
    with pool.api() as api:
        api.request("POST", "jobs", gang_body(pool, "exec sleep 600") | {"preemptible": True})
    until(lambda: states_of(pool) == ["running"] * 2, "the gang's start")
    pool.kill_server()
    quick(pool, GPUPOOL_STORE_FAULT=f"{step}:{event}", GPUPOOL_FAULTS_ALLOWED="1")
    urgent = job_body(pool, "exit 0") | {
        "name": "urgent",
        "shape": {"gpu_milli": 900},
        "priority": "high",
    }
    with pool.api() as api, contextlib.suppress(ServiceUnavailable):
        api.request("POST", "jobs", urgent, idempotency_key="urgent")
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    quick(pool)
    with pool.api() as api:
        api.request("POST", "jobs", urgent, idempotency_key="urgent")
    until(lambda: states_of(pool, "urgent") == ["done"], "the urgent job's end")
    until(lambda: states_of(pool) == ["running"] * 2, "the gang's second start")
    assert [
        row["preemptions"] for row in pool.rows("SELECT preemptions FROM jobs WHERE gang_rank >= 0")
    ] == [1, 1]
    until(lambda: run_times(pool) == 5, "the first word of each start")
    assert invariants.books(pool) == []
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    until(lambda: states_of(pool) == ["stopped"] * 2, "the gang's end")
    check_at_rest(pool)
    assert run_times(pool) == 5


@kill_around_commit
def test_a_gang_of_which_a_member_fails_ends_as_a_whole(pool: FaultPool, step: str) -> None:
    go = pool.paths.root.parent / "go"
    pool.up()
    fails = f'test "$GPUPOOL_GANG_RANK" = 1 && exec sleep 600; until test -e {go}; do sleep 0.02; done; exit 3'
    with pool.api() as api:
        api.request("POST", "jobs", gang_body(pool, fails))
    until(lambda: states_of(pool) == ["running"] * 2, "the gang's start")
    pool.kill_server()
    arm(pool, step, "job.ended")
    go.touch()
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    assert states_of(pool) == ["running" if step == "before-commit" else "failed", "running"]
    pool.up()
    until(lambda: states_of(pool) == ["failed", "stopped"], "the gang's end")
    assert run_times(pool) == 2
    check_at_rest(pool)


@kill_around_commit
def test_a_launcher_starts_once_when_the_others_run_and_its_end_is_that_of_the_gang(
    pool: FaultPool, step: str
) -> None:
    arm(pool, step, "job.running")
    body = gang_body(pool, 'test "$GPUPOOL_GANG_ROLE" = head || exec sleep 600')
    roles = [{"name": "worker", "count": 1}, {"name": "head", "count": 1, "launcher": True}]
    with pool.api() as api, contextlib.suppress(ServiceUnavailable):
        api.request(
            "POST",
            "jobs",
            body | {"gang": {"name": "all", "parts": roles}},
            idempotency_key="the-key",
        )
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    until(lambda: run_times(pool) == 1, "the first word of the worker")
    pool.up()
    until(lambda: states_of(pool) == ["stopped", "done"], "the gang's end")
    assert run_times(pool) == 2
    check_at_rest(pool)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "event"), [("after-commit", "job.preempted"), ("after-commit", "job.requeued")]
)
def test_seats_that_were_freed_for_a_gang_are_its_own_after_a_kill_however_others_stand(
    pool: FaultPool, step: str, event: str
) -> None:
    """`rival` is of the same priority, and its tenant has had nothing of the pool yet."""
    quick(pool)
    with pool.api() as api:
        api.request("POST", "tenants", {"name": "vision", "quota": {}}, idempotency_key="vision")
        api.request(
            "POST",
            "jobs",
            job_body(pool, "exec sleep 600") | {"name": "low", **WHOLE, "preemptible": True},
        )
    until(lambda: states_of(pool, "low") == ["running"], "the start of the job that is to leave")
    pool.kill_server()
    quick(pool, GPUPOOL_STORE_FAULT=f"{step}:{event}", GPUPOOL_FAULTS_ALLOWED="1")
    urgent = gang_body(pool, "exec sleep 600") | {"priority": "high"}
    rival = job_body(pool, "exec sleep 600") | {
        "name": "rival",
        "tenant": "vision",
        **WHOLE,
        "priority": "high",
    }
    with contextlib.suppress(ServiceUnavailable), pool.api() as api:
        api.request("POST", "jobs", urgent, idempotency_key="urgent")
        api.request("POST", "jobs", rival, idempotency_key="rival")
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    quick(pool)
    with pool.api() as api:
        api.request("POST", "jobs", rival, idempotency_key="rival")
    until(lambda: states_of(pool) == ["running"] * 2, "the gang's start")
    assert states_of(pool, "rival") == ["pending"]
    with pool.api() as api:
        for name in ("rival", "low", "the-job"):
            api.request("POST", f"jobs/{name}/stop", {"grace_seconds": 0})
    until(lambda: states_of(pool, "%") == ["stopped"] * 4, "every job's end")
    assert run_times(pool) == 3
    check_at_rest(pool)
