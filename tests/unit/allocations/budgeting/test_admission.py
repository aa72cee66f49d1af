"""A job starts only while its budget has room, as the ledger says at that moment."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BudgetSpent
from gpupool.store.tables import events
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from tests.support.budget_house import BudgetHouse


def test_a_spent_budget_lets_no_job_start_though_no_look_has_seen_it(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(1.5)
    second = house.submit(500, None, name="second", principal=house.bob)
    assert (second.state, house.job("first").state) == ("pending", "starting")
    assert "the budget of tenant nlp for" in house.job("second").reason
    explained = house.allocations.jobs.explain_job("second", house.admin)
    assert "1.50 GPU-hours of 1.00 GPU-hours (150 %)" in explained.sentence
    assert "gpupool budget set" in explained.hints[0]
    # Another tenant's jobs start.
    assert house.submit(500, None, name="other").state == "starting"


def test_a_job_that_may_not_wait_is_refused_and_not_written(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    for _ in range(2):
        with pytest.raises(BudgetSpent, match=r"2\.00 GPU-hours of 1\.00"):
            house.submit(100, None, name="second", principal=house.ann, wait=False)
        house.look()
    assert house.count_jobs()["pending"] == 0


def test_a_budget_of_a_user_holds_that_user_alone(house: BudgetHouse) -> None:
    house.set_budget(user="ann")
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    assert house.submit(100, None, name="hers", principal=house.ann).state == "pending"
    assert house.submit(100, None, name="his", principal=house.bob).state == "starting"


def test_members_of_arrays_wait_with_their_array(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    house.submit(100, None, name="many", principal=house.ann, array=5)
    house.look()
    assert house.count_jobs()["starting"] == 1
    assert house.allocations.cache.count_waiting() == 0
    assert house.allocations.cache.count_entries("nlp") >= 1


def test_an_array_that_waits_for_its_budget_says_so(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    house.submit(100, None, name="many", principal=house.ann, array=4)
    house.look()
    jobs = house.allocations.jobs
    array = jobs.get_array("many", house.ann)
    assert array.next == f"{array.id}.1"
    assert "the budget of tenant nlp" in array.reason
    explained = jobs.explain_job("many", house.ann)
    assert (explained.job, explained.sentence) == ("many.1", array.reason)
    for index in (1, 2, 3):
        assert house.allocations.cache.count_entries("nlp", house.ann.user_id) == 2
        assert jobs.get_array("many", house.ann).next == f"{array.id}.{index}"
        jobs.stop_job(f"many.{index}", house.ann, None)
    assert jobs.get_array("many", house.ann).next is None
    assert house.allocations.cache.count_entries("nlp", house.ann.user_id) == 1


def test_a_budget_that_only_warns_holds_nothing(house: BudgetHouse) -> None:
    house.set_budget(on_limit="warn")
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    assert house.submit(100, None, name="second", principal=house.ann).state == "starting"


def test_a_preview_says_that_a_job_waits_for_its_budget(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    house.look()
    body = JobIn(shape=ShapeIn(gpu_milli=100), launch=LaunchIn(argv=["true"]))
    previews = house.allocations.previews
    found = previews.preview_job(body, house.ann, None)
    second = house.submit(100, None, name="second", principal=house.ann)
    assert (found.outcome, found.on, second.state) == ("waits", [], "pending")
    explained = house.allocations.jobs.explain_job("second", house.admin)
    assert (found.reason, found.hints) == (explained.sentence, explained.hints)
    refused = previews.preview_job(body.model_copy(update={"wait": False}), house.ann, None)
    assert (refused.outcome, refused.code) == ("never", "GP-2123")
    assert previews.preview_job(body, house.admin, None).outcome == "fits"


@pytest.mark.parametrize("is_gang", [False, True])
def test_no_job_ends_for_one_whose_budget_is_spent(house: BudgetHouse, is_gang: bool) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.submit(1000, None, name="victim", preemptible=True, priority="low")
    for item in house.work():
        house.report(item, "running")
    house.pass_hours(2)
    gang = {"name": "urgent", "parts": [{"name": "urgent", "count": 2}]}
    more = {"gang": gang} if is_gang else {"name": "urgent"}
    house.submit(500, None, principal=house.ann, **more)
    house.allocations.placer.run_cycle()
    with house.store.read() as connection:
        kinds = set(connection.execute(sa.select(events.c.kind)).scalars())
    assert "job.preempted" not in kinds
    # It waits beside the queue, with the reason of its budget.
    assert house.allocations.cache.count_waiting() == 0
