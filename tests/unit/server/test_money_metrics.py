"""What a scrape says of money: nothing before the first hour, unknown costs absent, budgets by id."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from gpupool.billing.budgets.budget import Budget
from gpupool.billing.budgets.standing import BudgetStanding
from gpupool.billing.charging.latest_hour import BooksGap, ChargedHour, TenantHour
from gpupool.billing.charging.spending import SpendingOwner
from gpupool.billing.periods import Period
from gpupool.server.money_metrics import MoneyMetrics

BUDGET = Budget(1, "b-1", SpendingOwner(2), "nlp", None, None, "month", "UTC", "gpu-hours", 1000)
MONTH = Period("2026-11", 0, 30 * 86400)
HOUR = ChargedHour(
    3600,
    {"tenant": 1, "idle": 2, "overhead": 3, "unmanaged": 4},
    (TenantHour("nlp", 1, Fraction(1_250_000)), TenantHour("vision", 0, None)),
    BooksGap(7, 0, -5),
)


def read_values(metrics: MoneyMetrics) -> dict[tuple[str, ...], float]:
    found = {}
    for family in metrics.collect():
        for sample in family.samples:
            found[sample.name, *sample.labels.values()] = sample.value
    return found


def test_before_the_first_charged_hour_nothing_is_said() -> None:
    assert read_values(MoneyMetrics(None, ())) == {}


def test_an_hour_says_what_it_cost_and_how_far_it_does_not_close() -> None:
    found = read_values(MoneyMetrics(HOUR, ()))
    assert found["gpupool_charged_hour_start_seconds",] == 3600
    assert found["gpupool_charged_hour_card_milliseconds", "overhead"] == 3
    assert found["gpupool_charged_hour_cost", "nlp"] == 1.25
    assert ("gpupool_charged_hour_cost", "vision") not in found
    assert found["gpupool_charged_hour_held_milliseconds", "vision"] == 0
    assert found["gpupool_books_overbooked_milliseconds",] == 7
    assert found["gpupool_books_uncharged_milliseconds",] == -5


def test_books_that_cannot_be_checked_are_absent() -> None:
    found = read_values(MoneyMetrics(replace(HOUR, gap=None), ()))
    assert [name for name, *_ in found if name.startswith("gpupool_books_")] == []


def test_a_budget_says_what_is_spent_and_which_threshold_that_reaches() -> None:
    for spent, ratio, reached, on_hold in ((0, 0, 0, 0), (800, 0.8, 80, 0), (1500, 1.5, 100, 1)):
        found = read_values(MoneyMetrics(None, [BudgetStanding(BUDGET, MONTH, spent)]))
        assert found == {
            ("gpupool_budget_spent_ratio", "nlp", "b-1"): ratio,
            ("gpupool_budget_reached_percent", "nlp", "b-1"): reached,
            ("gpupool_budget_on_hold", "nlp", "b-1"): on_hold,
        }


def test_of_a_budget_of_0_no_part_is_spent() -> None:
    nothing = BudgetStanding(replace(BUDGET, amount=0), MONTH, 0)
    found = read_values(MoneyMetrics(None, [nothing]))
    assert ("gpupool_budget_spent_ratio", "nlp", "b-1") not in found
    assert found["gpupool_budget_on_hold", "nlp", "b-1"] == 1
