"""The server killed inside each write of a move and of a reservation's beginning: what is kept
stays kept."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import (
    NotFound,
    ServiceUnavailable,
    StaleGeneration,
    WriteConflict,
    WrongState,
)
from tests.faults import invariants
from tests.faults.pool import FaultPool, answer_of, until
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
WHOLE = {"shape": {"gpu_milli": 1000}}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="2x1xT4") as made:
        yield made


def cards(pool: FaultPool) -> list[str]:
    return [row["uuid"] for row in pool.rows("SELECT uuid FROM devices ORDER BY uuid")]


def seated(pool: FaultPool, name: str) -> list[str]:
    query = (
        "SELECT d.uuid FROM jobs j JOIN allocations a ON a.job_id = j.id AND a.state <> 'released'"
        " JOIN seats s ON s.allocation_id = a.id JOIN devices d ON d.id = s.device_id WHERE j.name = ?"
    )
    return [row["uuid"] for row in pool.rows(query, name)]


def moving(pool: FaultPool) -> str:
    """A job of half a card, which is to leave for the other card; that card."""
    with pool.api() as api:
        body = job_body(pool, "exec sleep 600") | {"shape": {"gpu_milli": 500}, "preemptible": True}
        api.request("POST", "jobs", body)
    until(lambda: states_of(pool) == ["running"], "the job's start")
    (other,) = set(cards(pool)) - set(seated(pool, "the-job"))
    return other


def body_of(pool: FaultPool, card: str) -> dict[str, Any]:
    """A move to the card as it is now."""
    (job,) = pool.rows("SELECT public_id FROM jobs WHERE name = 'the-job'")
    (row,) = pool.rows("SELECT generation FROM devices WHERE uuid = ?", card)
    return {
        "moves": [{"job": job["public_id"], "cards": [card], "generations": [row["generation"]]}]
    }


def move(pool: FaultPool, card: str) -> None:
    with pool.api() as api, contextlib.suppress(ServiceUnavailable):
        api.request("POST", "defrag/moves", body_of(pool, card))


@kill_around_commit
@pytest.mark.parametrize("event", ["job.moving", "job.requeued", "job.placed"])
def test_a_job_that_moves_stays_or_gets_the_very_seats_that_were_kept_for_it(
    pool: FaultPool, step: str, event: str
) -> None:
    if event == "job.placed":
        pool.up()
        card = moving(pool)
        pool.kill_server()
        arm(pool, step, event)
    else:
        arm(pool, step, event)
        card = moving(pool)
    move(pool, card)
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    pool.up()
    if (step, event) == ("before-commit", "job.moving"):
        assert (states_of(pool), seated(pool, "the-job") == [card]) == (["running"], False)
        move(pool, card)
    wants_all = job_body(pool, "exit 0") | {"name": "greedy", **WHOLE}
    with pool.api() as api:
        for number in range(2):
            api.request("POST", "jobs", wants_all | {"name": f"greedy-{number}"})
    until(lambda: seated(pool, "the-job") == [card], "the job on its new card")
    until(lambda: states_of(pool) == ["running"], "its second start")
    until(lambda: "done" in states_of(pool, "greedy%"), "an end on the card that it left")
    assert seated(pool, "the-job") == [card]
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    until(lambda: states_of(pool, "%") == ["stopped", "done", "done"], "every job's end")
    assert run_times(pool) == 4
    check_at_rest(pool)


@kill_around_commit
def test_a_move_that_is_asked_for_again_after_a_crash_is_made_once(
    pool: FaultPool, step: str
) -> None:
    arm(pool, step, "job.moving")
    card = moving(pool)
    asked = body_of(pool, card)
    killed_by(pool, "POST", "defrag/moves", asked)
    pool.up()
    with pool.api() as api:
        if step == "before-commit":
            assert len(answer_of(api, "POST", "defrag/moves", asked)["moving"]) == 1
        else:
            # Its cards have changed, it leaves already, or it waits for its new card: who looks
            # first.
            with pytest.raises((WriteConflict, WrongState, NotFound)):
                answer_of(api, "POST", "defrag/moves", asked)
    until(lambda: seated(pool, "the-job") == [card], "the job on its new card")
    until(lambda: states_of(pool) == ["running"], "its second start")
    with pool.api() as api, pytest.raises(StaleGeneration):
        answer_of(api, "POST", "defrag/moves", asked)
    with pool.api() as api:
        api.request("POST", "jobs/the-job/stop", {"grace_seconds": 0})
    until(lambda: states_of(pool, "%") == ["stopped"], "its end")
    assert run_times(pool) == 2
    check_at_rest(pool)


def test_a_plan_from_before_a_crash_is_refused_where_a_card_has_changed_since(
    pool: FaultPool,
) -> None:
    pool.up()
    card = moving(pool)
    asked = body_of(pool, card)
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exit 0") | {"name": "passing", **WHOLE})
    until(
        lambda: states_of(pool, "passing") == ["done"],
        "the end of a job that had the card meanwhile",
    )
    pool.kill_server()
    pool.up()
    with (
        pool.api() as api,
        pytest.raises(StaleGeneration, match="has changed since the plan was made"),
    ):
        answer_of(api, "POST", "defrag/moves", asked)
    assert (states_of(pool), seated(pool, "the-job") == [card]) == (["running"], False)
    move(pool, card)
    until(lambda: seated(pool, "the-job") == [card], "the job on its new card")


def reserve(pool: FaultPool, begins_in_seconds: float) -> None:
    start = time.time_ns() + int(begins_in_seconds * 10**9)
    shape = WHOLE["shape"] | {"memory_bytes": 8 << 30}
    times = {"start_ns": start, "end_ns": start + 600 * 10**9}
    with pool.api() as api:
        api.request(
            "POST", "reservations", {"name": "mine", "shape": shape, "replicas": 2, **times}
        )


@kill_around_commit
def test_cards_of_a_reservation_are_given_to_nobody_else_when_its_beginning_is_cut_off(
    pool: FaultPool, step: str
) -> None:
    arm(pool, step, "job.placed")
    reserve(pool, 1.0)
    with pool.api() as api:
        api.request("POST", "jobs", job_body(pool, "exec sleep 600") | {"name": "other", **WHOLE})
        api.request(
            "POST", "jobs", job_body(pool, "exec sleep 600") | {**WHOLE, "reservation": "mine"}
        )
    until(lambda: pool.server_pid() is None, "the server's death")
    assert invariants.books(pool) == []
    assert seated(pool, "other") == []
    pool.up()
    until(lambda: states_of(pool) == ["running"], "the start of the job of the reservation")
    # Its program writes that somewhat later.
    until(lambda: run_times(pool) > 0, "the job's own word of its start")
    assert (states_of(pool, "other"), run_times(pool)) == (["pending"], 1)
    assert invariants.books(pool) == []
    with pool.api() as api:
        answer_of(api, "DELETE", "reservations/mine")
        until(lambda: states_of(pool, "other") == ["running"], "the other job's start")
        for name in ("other", "the-job"):
            api.request("POST", f"jobs/{name}/stop", {"grace_seconds": 0})
    until(lambda: states_of(pool, "%") == ["stopped"] * 2, "every job's end")
    check_at_rest(pool)
