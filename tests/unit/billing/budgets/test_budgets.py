"""Budgets of real books, on both databases: thresholds once a period, holds, forecasts."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BadOption, BudgetBelowSpent, StaleGeneration, UnknownBudget
from gpupool.billing.budgets.budget import forecast_spending
from gpupool.billing.budgets.standing import (
    BudgetStanding,
    has_new_crossing,
    read_budgets,
    read_preempt_since,
    read_standing,
    record_crossings,
)
from gpupool.billing.periods import find_period, parse_zone
from gpupool.billing.service import Billing
from gpupool.store.tables import events
from gpupool.wire.billing.budgets import BudgetIn
from gpupool.wire.billing.statements import AdjustmentIn
from tests.support.billing_books import ADMIN, bill, make_prices, settle
from tests.support.metering_books import CARD_MIB, DAY, HOUR, START_S, Pool, principal

pytest_plugins = ["tests.support.postgres_fixtures"]
UNIT = 1_000_000


def make_budget(**changes: Any) -> BudgetIn:
    return BudgetIn.model_validate({"tenant": "vision", "amount": 36 * UNIT} | changes)


def look(pool: Pool) -> BudgetStanding:
    """Record what is reached now; return where the one budget stands."""
    with pool.store.write() as write:
        budget = read_budgets(write.connection)[0]
        standing = read_standing(write.connection, budget, write.now_ns // 10**9)
        record_crossings(write, [standing], "EUR")
    return standing


def list_percents(pool: Pool) -> list[int]:
    query = sa.select(events.c.data).where(events.c.kind == "budget.crossed")
    with pool.store.read() as connection:
        rows = connection.execute(query.order_by(events.c.seq)).scalars()
        return [row["percent"] for row in rows]


def test_each_threshold_is_one_event_a_period(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget(on_limit="preempt"))
    pool.grant(0, 0, 1000, CARD_MIB)  # 3.600001 an hour
    seen = []
    for _ in range(12):
        pool.time.forward(HOUR)
        billing.charging.make_due()
        standing = look(pool)
        look(pool)
        seen.append((standing.spent, standing.is_on_hold))
    assert list_percents(pool) == [50, 80, 100, 110]
    assert [on_hold for _, on_hold in seen].index(True) == 9
    assert seen[-1][0] == 3_600_001 * 12


def test_a_new_period_begins_at_nothing(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget(timezone="Asia/Shanghai"))
    pool.grant(0, 0, 1000, CARD_MIB)
    pool.time.forward(11 * HOUR)
    assert look(pool).is_on_hold
    end_s = find_period(START_S, "month", parse_zone("Asia/Shanghai")).end_s
    pool.time.forward(end_s - START_S - 11 * HOUR + 60)
    billing.charging.catch_up()
    standing = look(pool)
    assert standing.spent == 3_600_001 // 60
    assert not standing.is_on_hold


def test_a_budget_that_was_changed_since_it_was_read_is_not_replaced(pool: Pool) -> None:
    billing = bill(pool)
    made = billing.budgets.put(ADMIN, make_budget(), 0)
    changed = billing.budgets.put(ADMIN, make_budget(amount=40 * UNIT), made.generation)
    with pytest.raises(StaleGeneration) as refused:
        billing.budgets.put(ADMIN, make_budget(amount=50 * UNIT), made.generation)
    assert refused.value.details["generation"] == changed.generation
    with pytest.raises(StaleGeneration):
        billing.budgets.put(ADMIN, make_budget(amount=50 * UNIT), 0)
    assert billing.budgets.find(ADMIN, made.id).amount == 40 * UNIT
    billing.budgets.delete(ADMIN, made.id)
    with pytest.raises(StaleGeneration):
        billing.budgets.put(ADMIN, make_budget(), changed.generation)
    assert billing.budgets.list_all(ADMIN) == []


def test_a_budget_below_what_is_spent_is_refused_with_the_numbers(any_pool: Pool) -> None:
    billing = bill(any_pool)
    any_pool.grant(0, 0, 1000, CARD_MIB)
    any_pool.time.forward(2 * HOUR)
    with any_pool.store.write():
        pass
    with pytest.raises(BudgetBelowSpent, match=r"has spent 7\.20 EUR in 2023-11, more than 5\.00"):
        billing.budgets.put(ADMIN, make_budget(amount=5 * UNIT))
    assert billing.budgets.list_all(ADMIN) == []
    forced = billing.budgets.put(ADMIN, make_budget(amount=5 * UNIT, force=True))
    assert (forced.on_hold, forced.spent) == (True, 7_200_002)
    assert list_percents(any_pool) == [50, 80, 100]


def test_raising_a_budget_ends_its_hold_and_its_thresholds_count_anew(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget())
    pool.grant(0, 0, 1000, CARD_MIB)
    pool.time.forward(11 * HOUR)
    assert look(pool).is_on_hold
    raised = billing.budgets.put(ADMIN, make_budget(amount=60 * UNIT))
    assert not raised.on_hold
    assert [one.percent for one in raised.thresholds if one.reached_ns is not None] == [50]
    pool.time.forward(6 * HOUR)
    look(pool)
    assert list_percents(pool) == [50, 80, 100, 80, 100]


def test_a_threshold_that_ends_jobs_from_now_on_has_its_grace_from_now(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget())
    pool.grant(0, 0, 1000, CARD_MIB)
    pool.time.forward(10 * HOUR)
    look(pool)
    pool.time.forward(2 * HOUR)
    # 100 % held jobs two hours ago; now it ends them.
    stricter = make_budget(
        amount=40 * UNIT,
        hold_percent=80,
        warn_percents=[50],
        preempt_percent=100,
        on_limit="preempt",
        force=True,
    )
    billing.budgets.put(ADMIN, stricter)
    with pool.store.write() as write:
        now_ns = write.now_ns
    standing = look(pool)
    assert standing.list_reached() == [(50, "warn"), (80, "hold"), (100, "preempt")]
    with pool.store.read() as connection:
        assert read_preempt_since(connection, standing) == now_ns
    # The same again: the grace goes on.
    pool.time.forward(60)
    billing.budgets.put(ADMIN, stricter)
    with pool.store.read() as connection:
        assert read_preempt_since(connection, look(pool)) == now_ns


def test_a_budget_that_a_credit_took_below_has_a_new_grace(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget(amount=4 * UNIT, on_limit="preempt"))
    pool.grant(0, 0, 1000, CARD_MIB)
    pool.time.forward(2 * HOUR)
    first = look(pool)
    with pool.store.read() as connection:
        assert read_preempt_since(connection, first) is not None
    credit = AdjustmentIn(tenant="vision", amount_micro=-7 * UNIT, reason="outage")
    billing.seals.adjust(ADMIN, credit)
    with pool.store.read() as connection:
        (budget,) = read_budgets(connection)
        below = read_standing(connection, budget, START_S + 2 * HOUR)
        assert has_new_crossing(connection, below)
    assert look(pool).list_reached() == []
    with pool.store.read() as connection:
        assert not has_new_crossing(connection, below)
    pool.time.forward(2 * HOUR)
    again = look(pool)
    with pool.store.read() as connection:
        assert read_preempt_since(connection, again) == (START_S + 4 * HOUR) * 10**9
    # Warnings stay one event a period; the grace that begins anew is told.
    assert list_percents(pool) == [50, 80, 100, 110, 110]


def test_gpu_hours_are_counted_by_project_and_user(any_pool: Pool) -> None:
    billing = Billing(any_pool.store)
    any_pool.grant(0, 0, 300, 8192)
    any_pool.grant(1, 1, 500, 8192)
    settle(any_pool, billing)
    hours = {"unit": "gpu-hours", "amount": 10 * HOUR * 1000}
    spent = []
    for owner in ({}, {"project": "default"}, {"user": "ada"}, {"user": "bob"}):
        spent.append(billing.budgets.put(ADMIN, make_budget(**hours, **owner)).spent)
    assert spent == [800 * 2 * HOUR, 800 * 2 * HOUR, 300 * 2 * HOUR, 500 * 2 * HOUR]
    assert len(billing.budgets.list_all(ADMIN)) == 4
    with pytest.raises(UnknownBudget):
        billing.budgets.put(ADMIN, make_budget(user="cyd"))


def test_a_tenant_sees_its_own_budgets_alone(pool: Pool) -> None:
    billing = bill(pool)
    made = billing.budgets.put(ADMIN, make_budget())
    assert billing.budgets.find(principal(0), made.id).id == made.id
    assert billing.budgets.list_all(principal(2)) == []
    of_bob = billing.budgets.put(ADMIN, make_budget(user="bob"))
    assert [one.id for one in billing.budgets.list_all(principal(0))] == [made.id]
    assert [one.id for one in billing.budgets.list_all(principal(1))] == [made.id, of_bob.id]
    with pytest.raises(UnknownBudget):
        billing.budgets.find(principal(0), of_bob.id)
    with pytest.raises(UnknownBudget):
        billing.budgets.find(principal(2), made.id)
    with pytest.raises(UnknownBudget):
        billing.budgets.delete(principal(2), made.id)


@pytest.mark.parametrize(
    "changes",
    [{"warn_percents": [100]}, {"preempt_percent": 90}, {"timezone": "Asia/Kolkata"}],
)
def test_thresholds_that_contradict_are_refused(pool: Pool, changes: dict[str, Any]) -> None:
    billing = bill(pool)
    with pytest.raises(BadOption):
        billing.budgets.put(ADMIN, make_budget(**changes))
    assert billing.budgets.list_all(ADMIN) == []


def test_the_forecast_goes_on_as_the_last_days_did(pool: Pool) -> None:
    billing = bill(pool)
    made = billing.budgets.put(ADMIN, make_budget(amount=1000 * UNIT, unit="money"))
    assert made.forecast is None
    with pool.store.read() as connection:
        budget = read_budgets(connection)[0]
    period = find_period(START_S, "month", parse_zone("UTC"))
    now_s = period.start_s + 10 * DAY
    days = {1: 40 * UNIT, 2: 60 * UNIT, 3: 50 * UNIT}
    seen = forecast_spending(budget, 500 * UNIT, days, now_s, period)
    assert seen is not None
    assert (seen.end, seen.low, seen.high) == (1500 * UNIT, 1300 * UNIT, 1700 * UNIT)
    assert seen.runs_out_s == now_s + 10 * DAY
    calm = forecast_spending(budget, 500 * UNIT, {1: 0}, now_s, period)
    assert calm is not None
    assert (calm.end, calm.runs_out_s) == (500 * UNIT, None)


def test_the_forecast_of_a_steady_load_goes_on_with_it(pool: Pool) -> None:
    billing = bill(pool)
    billing.budgets.put(ADMIN, make_budget(amount=10_000 * UNIT))
    pool.grant(0, 0, 1000, CARD_MIB)
    # Charges of the last hour and of the one that runs are not made yet.
    pool.time.forward(26 * HOUR + 300)
    (shown,) = billing.budgets.list_all(ADMIN)
    assert shown.forecast is None
    billing.charging.catch_up()
    (shown,) = billing.budgets.list_all(ADMIN)
    left_ns = shown.period_end_ns - (START_S + 26 * HOUR + 300) * 10**9
    assert shown.forecast is not None
    assert shown.forecast.end == shown.spent + round(3_600_001 * left_ns / (HOUR * 10**9))
    # A new price list forgets the charges: what no hour says is unknown, and not 0.
    billing.prices.put("list", make_prices())
    (shown,) = billing.budgets.list_all(ADMIN)
    assert shown.forecast is None
