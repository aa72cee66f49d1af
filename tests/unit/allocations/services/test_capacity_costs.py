"""What the cards of a pool cost a month by a price list."""

from __future__ import annotations

from gpupool.allocations.services.capacity_costs import compute_month_cost
from gpupool.billing.prices.price_list import DatedPriceList, Rate

EUR = 1_000_000


def price(*rates: Rate) -> DatedPriceList:
    return DatedPriceList("now", 0, "EUR", "UTC", rates)


def test_hours_of_the_day_count_as_often_as_the_day_has_them() -> None:
    night = price(Rate("*", 2 * EUR), Rate("*", EUR, hours=(22, 4)))
    # Six hours at 1 EUR and eighteen at 2 EUR are 1.75 EUR in the mean.
    assert compute_month_cost(night, {"H200": 4}) == 4 * 730 * 1_750_000


def test_a_share_does_not_change_what_the_card_costs() -> None:
    listed = price(Rate("*", EUR), Rate("*", 3 * EUR, sharing="burst"), Rate("T4", EUR // 2))
    assert compute_month_cost(listed, {"H200": 1, "T4": 2}) == 730 * 2 * EUR


def test_a_model_without_a_price_makes_the_cost_unknown() -> None:
    assert compute_month_cost(price(Rate("T4", EUR)), {"T4": 1, "H200": 1}) is None
    assert compute_month_cost(price(Rate("T4", EUR)), {}) == 0
