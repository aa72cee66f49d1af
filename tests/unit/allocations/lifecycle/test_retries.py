"""A job that fails starts again after a pause, as often as it was asked for."""

from __future__ import annotations

import pytest

from gpupool.allocations.ledger.evictions import recover_jobs
from gpupool.allocations.views.attempts import find_log_part
from gpupool.base.errors import BadOption, UnknownAttempt
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.wire.defrag import MovesIn
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House
from tests.support.resizing import running


@pytest.fixture
def skip(house: House, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nanoseconds by which the pool's clock is ahead."""
    ahead = [0]
    real = house.store.clock.now_ns
    monkeypatch.setattr(house.store.clock, "now_ns", lambda: real() + ahead[0])
    return ahead


def place(house: House) -> None:
    while house.allocations.placer.run_cycle().more:
        pass


def fail(house: House, name: str, **more: object) -> None:
    house.finish(name, **{"exit_code": 3, "reason": "exited", **more})


def test_a_failed_job_starts_again_after_its_pause(house: House, skip: list[int]) -> None:
    house.submit(name="train", retries=2, retry_first_seconds=60)
    place(house)
    fail(house, "train", log_bytes=100)
    place(house)
    job = house.job("train")
    assert (job.state, job.attempt, job.retries) == ("pending", 2, 2)
    assert job.reason.startswith("attempt 2 of 3 starts in ")
    assert job.retry_ns is not None
    assert [(one.number, one.state, one.reason) for one in job.attempts] == [
        (1, "failed", "exit code 3")
    ]
    wake = house.allocations.placer.planner.compute_next_wake()
    assert wake is not None
    assert 40 < wake <= 60
    house.restart()
    place(house)
    assert house.job("train").state == "pending"
    skip[0] += 60 * NANOS_PER_SECOND
    place(house)
    assert house.job("train").state == "starting"
    assert house.work()[-1].env["GPUPOOL_ATTEMPT"] == "2"
    assert house.work()[-1].earlier_runs == 1
    house.finish("train", exit_code=0, reason="exited")
    job = house.job("train")
    assert (job.state, job.attempt) == ("done", 2)


def test_the_last_attempt_ends_the_job(house: House, skip: list[int]) -> None:
    house.submit(name="train", retries=1)
    house.submit(name="mend", after=[{"job": "train", "condition": "fail"}])
    for _ in range(2):
        skip[0] += 600 * NANOS_PER_SECOND
        place(house)
        assert house.job("mend").state == "pending"
        fail(house, "train")
    place(house)
    assert (house.job("train").state, house.job("train").attempt) == ("failed", 2)
    assert house.job("mend").state == "starting"


@pytest.mark.parametrize("reason", ["max_time", "no such file", "interrupted"])
def test_ends_that_would_come_again_are_not_tried_again(house: House, reason: str) -> None:
    house.submit(name="train", retries=1)
    place(house)
    fail(house, "train", reason=reason)
    assert house.job("train").state in ("failed", "stopped")


def test_a_stop_by_the_user_is_not_tried_again(house: House) -> None:
    house.submit(name="train", retries=1)
    place(house)
    house.allocations.jobs.stop_job("train", house.admin, None)
    house.finish("train", exit_code=None, signal=15, reason="stopped")
    assert house.job("train").state == "stopped"


@pytest.mark.parametrize(("retries", "state"), [(1, "pending"), (0, "failed")])
def test_a_failure_just_before_its_card_is_given_up_is_tried_again(
    house: House, retries: int, state: str
) -> None:
    job = house.submit(name="train", retries=retries)
    place(house)
    # The card failed: its health is reported before the end of the command that it crashed.
    with house.store.write() as write:
        assert recover_jobs(write, [job.id]) == [job.id]
    fail(house, "train")
    after = house.job("train")
    assert (after.state, after.attempt) == (state, 1 + retries)
    assert [one.reason for one in after.attempts] == ["exit code 3"] * retries


def test_a_failure_just_before_a_move_is_tried_again(house: House, skip: list[int]) -> None:
    running(house, "train", preemptible=True, retries=1, retry_first_seconds=60)
    moves = MovesIn(moves=[house.move_to("train", "GPU-node-1-1")])
    assert house.allocations.migrations.apply_moves(moves).moving
    fail(house, "train")
    after = house.job("train")
    assert (after.state, after.attempt) == ("pending", 2)
    # Its new seats are for others until the pause is over.
    house.submit(1000, None, name="other", count=2)
    place(house)
    assert (house.job("train").state, house.job("other").state) == ("pending", "starting")
    house.finish("other")
    skip[0] += 60 * NANOS_PER_SECOND
    place(house)
    assert house.job("train").state == "starting"


def test_a_job_that_waits_for_its_next_attempt_can_be_stopped(
    house: House, skip: list[int]
) -> None:
    house.submit(name="train", retries=1)
    place(house)
    fail(house, "train")
    house.allocations.jobs.stop_job("train", house.admin, None)
    assert house.job("train").state == "stopped"
    skip[0] += 600 * NANOS_PER_SECOND
    place(house)
    assert house.allocations.cache.count_waiting() == 0


def test_a_gang_is_tried_again_whole_and_counts_once(house: House, skip: list[int]) -> None:
    gang = GroupIn(name="all", parts=[RoleIn(name="worker", count=2)])
    house.submit(name="train", gang=gang, retries=1)
    place(house)
    fail(house, "train.0")
    assert house.job("train.1").state == "starting"
    # The failure of one member makes the other fail before it is stopped.
    fail(house, "train.1")
    place(house)
    assert {house.job(f"train.{n}").state for n in range(2)} == {"pending"}
    assert {house.job(f"train.{n}").attempt for n in range(2)} == {2}
    skip[0] += 60 * NANOS_PER_SECOND
    place(house)
    assert {house.job(f"train.{n}").state for n in range(2)} == {"starting"}
    fail(house, "train.0")
    assert house.job("train.0").state == "failed"


def test_members_of_an_array_are_tried_again_one_by_one(house: House, skip: list[int]) -> None:
    house.submit(100, 1, name="sweep", array=2, retries=1)
    place(house)
    fail(house, "sweep.0")
    house.finish("sweep.1")
    array = house.allocations.jobs.get_array("sweep", house.admin)
    assert array.states == {"pending": 1, "done": 1}
    skip[0] += 60 * NANOS_PER_SECOND
    place(house)
    house.finish("sweep.0")
    assert house.allocations.jobs.get_array("sweep", house.admin).states == {"done": 2}


def test_the_log_of_an_attempt_is_between_the_ends_of_two(house: House, skip: list[int]) -> None:
    house.submit(name="train", retries=2)
    for length in (100, None):
        place(house)
        fail(house, "train", log_bytes=length)
        skip[0] += 600 * NANOS_PER_SECOND
    job = house.job("train")
    assert find_log_part(job, 1) == (0, 100)
    for unknown in (2, 3, 4):
        with pytest.raises(UnknownAttempt):
            find_log_part(job, unknown)


def test_an_attached_job_is_not_tried_again(house: House) -> None:
    with pytest.raises(BadOption):
        house.submit(name="train", attached=True, retries=1)
