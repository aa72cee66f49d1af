"""A container's part of a card's time is measured over a second at least, from 0 to 1."""

from __future__ import annotations

import pytest

from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.kubernetes.node.usage_rates import RATE_SECONDS, UsageRates
from tests.support.hand_clock import Clock

KEY = ("uid-a", "main", "GPU-0")


def measure(rates: UsageRates, used_ns: int) -> float:
    return rates.measure_ratios({KEY: used_ns})[KEY]


def test_first_collection_measures_nothing_and_the_next_the_ratio() -> None:
    clock = Clock(100.0)
    rates = UsageRates(clock)
    assert measure(rates, 50 * NS) == 0.0
    clock.now = 104.0
    assert measure(rates, 51 * NS) == 0.25


def test_second_scraper_does_not_shorten_the_interval_of_the_first() -> None:
    clock = Clock(100.0)
    rates = UsageRates(clock)
    measure(rates, 0)
    clock.now = 101.0
    assert measure(rates, NS // 2) == 0.5
    clock.now = 101.0 + RATE_SECONDS / 2
    assert measure(rates, NS) == 0.5, "the same rate as before"
    clock.now = 102.0
    assert measure(rates, NS) == 0.5


@pytest.mark.parametrize(("used_ns", "ratio"), [(0, 0.0), (30 * NS, 1.0)])
def test_ratio_stays_within_0_and_1(used_ns: int, ratio: float) -> None:
    clock = Clock(100.0)
    rates = UsageRates(clock)
    measure(rates, 10 * NS)
    clock.now = 110.0
    assert measure(rates, used_ns) == ratio


def test_container_that_left_begins_anew() -> None:
    clock = Clock(100.0)
    rates = UsageRates(clock)
    measure(rates, 0)
    clock.now = 110.0
    assert rates.measure_ratios({}) == {}
    assert measure(rates, 10 * NS) == 0.0
