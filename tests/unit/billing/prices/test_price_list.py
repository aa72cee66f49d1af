"""Which price holds for which share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import BadOption
from gpupool.billing.prices.price_list import (
    DatedPriceList,
    Rate,
    ShareFacts,
    check_rates,
    find_list,
)
from gpupool.metering.books import UsageAmount

RATES = (
    Rate("*", 100),
    Rate("*", 60, sharing="best-effort"),
    Rate("*", 80, hours=(22, 8)),
    Rate("H200", 300),
    Rate("H200", 200, mechanism="mig"),
)
LIST = DatedPriceList("one", 0, "EUR", "Asia/Shanghai", RATES, preemptible_discount_milli=300)
H200 = ShareFacts("H200", "fence", "fixed", False)


@pytest.mark.parametrize(
    ("facts", "hour", "price"),
    [
        (H200, 12, 300),
        (replace(H200, mechanism="mig"), 12, 200),
        # The model is named before anything else: a general night price does not hold for it.
        (H200, 23, 300),
        (replace(H200, model="T4"), 12, 100),
        (replace(H200, model="T4"), 23, 80),
        (replace(H200, model="T4"), 8, 100),
        (replace(H200, model="T4", sharing="best-effort"), 23, 60),
    ],
)
def test_the_price_that_names_most_holds(facts: ShareFacts, hour: int, price: int) -> None:
    assert LIST.find_price(facts, hour) == price


def test_hours_are_of_the_lists_time_zone() -> None:
    assert LIST.get_local_hour(16 * 3600) == 0


def test_a_preemptible_job_is_let_off_the_discount() -> None:
    assert LIST.get_factor_milli(replace(H200, preemptible=True)) == 700
    assert LIST.get_factor_milli(H200) == 1000


def test_a_share_is_charged_by_the_rule_of_the_list() -> None:
    held = UsageAmount(
        card_milliseconds=300, memory_mib_seconds=500, dominant_micro_seconds=500_000
    )
    charged = [
        replace(LIST, rule=rule).count_charged(held, 1000)
        for rule in ("max", "compute-only", "memory-only")
    ]
    assert charged == [500_000, 300_000, 500_000]


@pytest.mark.parametrize(
    "rates",
    [
        (Rate("*", 1), Rate("*", 2)),
        (Rate("*", 1), Rate("*", 2, hours=(1, 5)), Rate("*", 3, hours=(4, 6))),
        (Rate("H200", 1, sharing="burst"),),
        (Rate("H200", 1, hours=(8, 20)),),
    ],
)
def test_prices_that_contradict_or_leave_hours_out_are_refused(rates: tuple[Rate, ...]) -> None:
    with pytest.raises(BadOption):
        check_rates(rates)


def test_day_and_night_together_price_the_whole_day() -> None:
    check_rates((Rate("H200", 1, hours=(8, 20)), Rate("H200", 2, hours=(20, 8))))


def test_the_list_in_force_is_the_latest_that_has_begun() -> None:
    later = replace(LIST, name="two", from_s=7200)
    found = [find_list([LIST, later], second) for second in (-1, 0, 7199, 7200)]
    assert [one and one.name for one in found] == [None, "one", "one", "two"]
