"""Amounts: parsing, printing, and rounding that adds up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadOption
from gpupool.billing.money import apportion, compute_cost, format_cents, format_money, parse_money


@given(st.integers(-(10**17), 10**17))
def test_money_that_is_printed_is_read_back(micro: int) -> None:
    assert parse_money(format_money(micro), signed=True) == micro


@pytest.mark.parametrize("text", ["", "nan", "1e99", "0.0000001", "-1", "1,5"])
def test_text_that_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_money(text)


@given(st.lists(st.fractions(min_value=-(10**9), max_value=10**12), max_size=30))
def test_parts_add_up_to_the_rounded_total_and_none_moves_by_a_unit(
    exact: list[Fraction],
) -> None:
    parts, total = apportion(exact, 10_000)
    assert sum(parts) == total
    assert abs(total - sum(exact)) <= 5_000
    assert all(abs(part - one) < 10_000 for part, one in zip(parts, exact, strict=True))


def test_half_a_card_for_an_hour_costs_half_its_price() -> None:
    assert compute_cost(500_000 * 3600, 3_000_000, 1000) == 1_500_000


def test_cents_of_a_credit_keep_their_sign() -> None:
    assert format_cents(-50_000) == "-0.05"
