"""What the cards of a pool cost a month by the price list in force."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.prices.price_list import HOURS_OF_DAY, DatedPriceList, find_list
from gpupool.billing.prices.service import read_price_lists
from gpupool.store.database import Store
from gpupool.wire.planning import ForecastOut

#: Hours of a mean month: 365 days * 24 / 12.
MONTH_HOURS = 730


class CapacityCosts:
    """Reads the price list that is in force. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add_cost(self, side: ForecastOut, models: Mapping[str, int]) -> ForecastOut:
        """Add to a side of a forecast what its cards cost a month.

        Args:
            side: One side.
            models: How many cards it has of each model.
        """
        now_s = self._store.clock.now_ns() // NANOS_PER_SECOND
        with self._store.read() as connection:
            price_list = find_list(read_price_lists(connection), now_s)
        if price_list is None:
            return side
        cost = compute_month_cost(price_list, models)
        return side.model_copy(
            update={"currency": price_list.currency, "cost_month_micro": cost},
        )


def compute_month_cost(price_list: DatedPriceList, models: Mapping[str, int]) -> int | None:
    """Compute what cards cost in 730 hours, in micro-units; None: a model has no price.

    A price of some hours of the day counts as often as the day has these hours.
    """
    day_micro = 0
    for model, cards in models.items():
        for hour in range(HOURS_OF_DAY):
            price = price_list.find_base_price(model, hour)
            if price is None:
                return None
            day_micro += cards * price
    return round(Fraction(day_micro * MONTH_HOURS, HOURS_OF_DAY))
