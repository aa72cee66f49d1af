"""A look holds what is spent, lets it start again, and ends preemptible jobs after the grace."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.store.tables import events
from tests.support.budget_house import GPU_HOUR, BudgetHouse


def list_events(house: BudgetHouse, kind: str) -> list[dict[str, object]]:
    query = sa.select(events.c.data).where(events.c.kind == kind).order_by(events.c.seq)
    with house.store.read() as connection:
        return list(connection.execute(query).scalars())


def test_what_waits_for_a_budget_starts_when_it_is_raised(house: BudgetHouse) -> None:
    made = house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    house.look()
    house.submit(500, None, name="second", principal=house.ann)
    house.look()
    assert house.job("second").state == "pending"
    assert house.allocations.cache.count_waiting() == 0
    house.set_budget(hours=5)
    house.look()
    assert house.job("second").state == "starting"
    assert [one["percent"] for one in list_events(house, "budget.crossed")] == [50, 80, 100]
    house.allocations.billing.budgets.delete(house.admin, made.id)
    house.look()
    assert house.submit(100, None, name="third", principal=house.ann).state == "starting"


def test_a_server_that_starts_knows_what_is_spent(house: BudgetHouse) -> None:
    house.set_budget()
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(2)
    house.submit(500, None, name="second", principal=house.ann)
    house.restart()
    house.allocations.budget_watch.read_holds()
    house.allocations.placer.run_cycle()
    assert house.allocations.cache.count_waiting() == 0
    assert "budget of tenant nlp" in house.job("second").reason


def test_preemptible_jobs_end_after_the_grace_and_wait_again(house: BudgetHouse) -> None:
    house.set_budget(on_limit="preempt", grace_seconds=3600)
    for name, preemptible in (("firm", False), ("soft", True)):
        house.submit(1000, None, name=name, principal=house.ann, preemptible=preemptible)
    for item in house.work():
        house.report(item, "running")
    house.pass_hours(1)  # 2 of 1 GPU-hours
    house.look()
    assert list_events(house, "job.preempted") == []
    house.pass_hours(1.1)
    house.look()
    house.look()
    assert [one["name"] for one in list_events(house, "job.preempted")] == ["soft"]
    item = next(item for item in house.work() if item.job == house.job("soft").id)
    house.report(item, "ended", reason="stopped", signal=15)
    house.look()
    assert (house.job("soft").state, house.job("firm").state) == ("pending", "running")
    assert house.job("soft").reason == "its budget is spent, and it is preemptible"
    explained = house.allocations.jobs.explain_job("soft", house.admin)
    assert "the budget of tenant nlp" in explained.sentence


def test_what_a_budget_ends_is_no_eviction_after_a_restart(house: BudgetHouse) -> None:
    house.set_budget(on_limit="preempt", grace_seconds=0)
    house.submit(1000, None, name="soft", principal=house.ann, preemptible=True)
    house.report(house.work()[0], "running")
    house.pass_hours(2)
    house.look()
    assert [one["name"] for one in list_events(house, "job.preempted")] == ["soft"]
    now_ns = house.store.clock.now_ns()
    before = house.allocations.placer.planner.list_rules(now_ns).evicted
    house.restart()
    assert house.allocations.placer.planner.list_rules(now_ns).evicted == before == {}


def test_a_look_without_budgets_makes_charges_and_holds_nothing(house: BudgetHouse) -> None:
    house.submit(1000, None, name="first", principal=house.ann)
    house.pass_hours(3)
    house.look()
    made = house.set_budget(hours=10)
    assert made.spent == 3 * GPU_HOUR
    assert list_events(house, "budget.crossed") == []
