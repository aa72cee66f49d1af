"""Prices are read strictly, applied exactly, and printed so that the sum is the sum."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadOption
from gpupool.metering.books import HostAmount, UsageAmount
from gpupool.metering.prices import PriceList, parse_prices, round_to_total


def test_a_named_model_wins_over_every_other_model() -> None:
    prices = parse_prices(["H200:3.60", "*:0.36"])
    assert prices is not None
    assert (prices.get_price("H200"), prices.get_price("T4")) == (
        Fraction(1, 1000),
        Fraction(1, 10_000),
    )


def test_no_price_is_no_prices() -> None:
    assert parse_prices([]) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("H200", "is not a price"),
        (":2.50", "is not a price"),
        ("H200:", "is not a price"),
        ("H200:nan", "is not a price"),
        ("H200:inf", "is not a price"),
        ("H200:2,50", "is not a price"),
        ("H200:-1", "cannot be used"),
        ("H200:1e12", "cannot be used"),
        ("H200:1e999999999999999999", "cannot be used"),
        ("H200:0.0000001", "cannot be used"),
    ],
)
def test_what_is_no_price_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        parse_prices([text])


def test_processors_and_memory_have_a_price_only_where_one_is_given() -> None:
    hosts = parse_prices([], cpu="0.04")
    assert hosts is not None
    assert (hosts.per_cpu_hour, hosts.per_gib_hour) == (Decimal("0.04"), None)
    assert hosts.get_price("H200") == 0
    assert hosts.compute_host_cost(HostAmount(2000 * 3600, 1024 * 3600)) == Fraction(8, 100)
    assert hosts.description == "processors as long as jobs hold them, times their price"
    cards = parse_prices(["*:1"])
    assert cards is not None
    assert not cards.prices_hosts


@pytest.mark.parametrize("text", ["", "x", "nan", "-1", "0.0000001", "cpu:1"])
def test_what_is_no_price_of_a_processor_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_prices([], cpu=text)
    with pytest.raises(BadOption):
        parse_prices(["*:1"], memory=text)


def test_two_prices_for_one_model_are_refused() -> None:
    with pytest.raises(BadOption, match="two prices for H200"):
        parse_prices(["H200:1", "H200:2"])


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadOption, match="unknown price rule 'mean'") as refusal:
        parse_prices(["*:1"], "mean")
    assert refusal.value.hint == "rules: max, compute-only, memory-only"


def test_a_model_without_a_price_is_refused_by_its_name() -> None:
    with pytest.raises(BadOption, match="no price for T4"):
        PriceList({"H200": Decimal(1)}).get_price("T4")


@pytest.mark.parametrize(
    ("rule", "cards"), [("max", 36), ("compute-only", 30), ("memory-only", 36)]
)
def test_each_rule_charges_its_own_part_of_the_card(rule: str, cards: int) -> None:
    prices = parse_prices(["*:1"], rule)
    assert prices is not None
    held = UsageAmount(
        card_milliseconds=30_000, memory_mib_seconds=36_000, dominant_micro_seconds=36_000_000
    )
    assert prices.count_card_seconds(held, card_memory_mib=1000) == cards


@given(st.lists(st.fractions(-1000, 1000, max_denominator=7200), max_size=20))
def test_printed_costs_add_up_to_the_printed_total_and_are_near_the_exact_ones(
    exact: list[Fraction],
) -> None:
    printed, total = round_to_total(exact)
    assert sum(map(Decimal, printed), Decimal(0)) == Decimal(total)
    assert abs(Fraction(Decimal(total)) - sum(exact, Fraction(0))) <= Fraction(1, 200)
    for one, cost in zip(exact, printed, strict=True):
        assert abs(Fraction(Decimal(cost)) - one) < Fraction(1, 100)
