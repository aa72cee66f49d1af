"""The server killed inside each kind of write, before its commit and after it: both are as if
nothing had happened.

What the client repeats under its key takes effect once; what it does not repeat is either all there
or not at all.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.errors import BadOption, WrongState
from gpupool.store.faults import no_fault, read_fault
from tests.faults import invariants
from tests.faults.pool import FaultPool, until
from tests.faults.steps import (
    ENDED,
    arm,
    await_state,
    check_at_rest,
    job_body,
    kill_around_commit,
    killed_by,
    run_times,
)

pytestmark = pytest.mark.root


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@kill_around_commit
def test_a_repeated_submission_gets_its_one_job(pool: FaultPool, step: str) -> None:
    arm(pool, step, "job.submitted")
    body = job_body(pool, "exit 0")
    killed_by(pool, "POST", "jobs", body, idempotency_key="the-key")
    kept = pool.rows("SELECT public_id FROM jobs")
    assert len(kept) == (0 if step == "before-commit" else 1)
    pool.up()
    with pool.api() as api:
        told = api.request("POST", "jobs", body, idempotency_key="the-key")["first"]
    assert not kept or told["id"] == kept[0]["public_id"]
    assert await_state(pool, *ENDED)["state"] == "done"
    assert run_times(pool) == 1
    assert len(pool.rows("SELECT id FROM jobs")) == 1
    check_at_rest(pool)


@kill_around_commit
def test_a_job_that_was_being_placed_is_placed_once(pool: FaultPool, step: str) -> None:
    pool.up()
    holder = job_body(pool, "exec sleep 600") | {"name": "holder", "shape": {"gpu_milli": 1000}}
    holder["launch"] = holder["launch"] | {"argv": ["sleep", "600"]}
    with pool.api() as api:
        api.request("POST", "jobs", holder)
        api.request("POST", "jobs", job_body(pool, "exit 0"))
    until(lambda: len(pool.supervisors()) == 1, "the holder's start")
    pool.kill_server()
    arm(pool, step, "job.placed")
    with pool.api() as api:
        api.request("POST", "jobs/holder/stop", {"grace_seconds": 0})
    until(lambda: pool.server_pid() is None, "the server's death")
    pool.up()
    assert await_state(pool, *ENDED)["state"] == "done"
    assert run_times(pool) == 1
    check_at_rest(pool)


@kill_around_commit
def test_a_repeated_resize_takes_effect_once_and_the_books_close(
    pool: FaultPool, step: str
) -> None:
    arm(pool, step, "job.resized")
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exec sleep 600"))
    await_state(pool, "running")
    body = {"gpu_milli": 500, "memory_bytes": 2 << 30}
    killed_by(pool, "POST", "jobs/the-job/resize", body, idempotency_key="the-key")
    (seat,) = pool.rows("SELECT gpu_milli FROM seats")
    assert seat["gpu_milli"] == (300 if step == "before-commit" else 500)
    assert invariants.books(pool) == []
    pool.up()
    with pool.api() as api:
        told = api.request("POST", "jobs/the-job/resize", body, idempotency_key="the-key")
        again = api.request("POST", "jobs/the-job/resize", body, query={"wait_seconds": 30})
    assert told["changed"] is True
    assert (again["changed"], again["applied"], again["job"]["gpu_milli"]) == (False, True, 500)
    assert len(pool.rows("SELECT seq FROM events WHERE kind = 'job.resized'")) == 1
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    assert await_state(pool, *ENDED)["state"] == "stopped"
    assert run_times(pool) == 1
    check_at_rest(pool)


@kill_around_commit
def test_an_end_that_was_being_told_is_told_once(pool: FaultPool, step: str) -> None:
    arm(pool, step, "job.ended")
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exit 7"))
    until(lambda: pool.server_pid() is None, "the server's death")
    assert run_times(pool) == 1
    pool.up()
    job = await_state(pool, *ENDED)
    assert (job["state"], job["exit_code"]) == ("failed", 7)
    assert run_times(pool) == 1
    check_at_rest(pool)


@kill_around_commit
def test_a_running_job_is_taken_back_whether_or_not_its_start_was_noted(
    pool: FaultPool, step: str
) -> None:
    arm(pool, step, "job.running")
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exec sleep 600"))
    until(lambda: pool.server_pid() is None, "the server's death")
    pool.up()
    await_state(pool, "running")
    assert len(pool.supervisors()) == 1
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    assert await_state(pool, *ENDED)["state"] == "stopped"
    assert run_times(pool) == 1
    check_at_rest(pool)


@kill_around_commit
def test_a_stop_is_either_heard_or_may_be_said_again(pool: FaultPool, step: str) -> None:
    pool.up()
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exec sleep 600"))
    await_state(pool, "running")
    pool.kill_server()
    arm(pool, step, "node")  # the node is told of nothing else now
    killed_by(pool, "POST", "jobs/the-job/stop", {"grace_seconds": 0})
    assert len(pool.supervisors()) == 1
    pool.up()
    if step == "before-commit":
        assert await_state(pool, "running")["state"] == "running"
        with pool.api() as api:
            api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    assert await_state(pool, *ENDED)["state"] == "stopped"
    with pool.api() as api, pytest.raises(WrongState):
        api.request("POST", "jobs/the-job/stop", {})
    check_at_rest(pool)


@kill_around_commit
def test_a_quota_is_the_old_one_or_the_new_one(pool: FaultPool, step: str) -> None:
    arm(pool, step, "quota.changed")
    quota = {"nominal_milli": 700, "borrowing_milli": 100}
    killed_by(pool, "PUT", "tenants/default/quota", quota, idempotency_key="the-key")
    pool.up()
    with pool.api() as api:
        before = api.request("GET", "tenants/default/quota")["nominal_milli"]
        assert before == (None if step == "before-commit" else 700)
        api.request("PUT", "tenants/default/quota", quota, idempotency_key="the-key")
        assert api.request("GET", "tenants/default/quota")["nominal_milli"] == 700
    assert len(pool.rows("SELECT seq FROM events WHERE kind = 'quota.changed'")) == 1
    check_at_rest(pool)


def test_a_fault_is_honoured_only_where_faults_are_allowed() -> None:
    assert read_fault({"GPUPOOL_STORE_FAULT": "before-commit:job.placed"}) is no_fault
    assert read_fault({"GPUPOOL_FAULTS_ALLOWED": "1"}) is no_fault
    armed = read_fault(
        {"GPUPOOL_STORE_FAULT": "before-commit:job.placed", "GPUPOOL_FAULTS_ALLOWED": "1"}
    )
    armed("before-commit", lambda: frozenset({"job.submitted"}))
    armed("after-commit", lambda: frozenset({"job.placed"}))
    for wrong in ("before-commit", "during-commit:job.placed"):
        with pytest.raises(BadOption, match="no step"):
            read_fault({"GPUPOOL_STORE_FAULT": wrong, "GPUPOOL_FAULTS_ALLOWED": "1"})


def test_the_armed_server_dies_by_sigkill_and_not_by_an_answer(pool: FaultPool) -> None:
    separate = FaultPool(pool.paths.root, sim="1xT4", separate_agent=True)
    with separate:
        separate.up(GPUPOOL_STORE_FAULT="before-commit:quota.changed", GPUPOOL_FAULTS_ALLOWED="1")
        killed_by(separate, "PUT", "tenants/default/quota", {"nominal_milli": 700})
        assert separate.await_server_exit() == -signal.SIGKILL
