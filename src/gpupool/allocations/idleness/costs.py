"""What shares cost an hour by the price lists, for lists and reports of idle jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.billing.money import compute_cost
from gpupool.billing.prices.price_list import DatedPriceList, ShareFacts, find_list
from gpupool.metering.books import HOUR_S, MICRO, WHOLE_MILLI, UsageAmount


class SharePrices:
    """The price lists of a pool."""

    def __init__(self, lists: Sequence[DatedPriceList]) -> None:
        self._lists = lists

    def find_currency(self, now_ns: int) -> str:
        """Find the currency of an instant; empty without a price list."""
        found = find_list(self._lists, now_ns // NANOS_PER_SECOND)
        return "" if found is None else found.currency

    def price_share(
        self, facts: ShareFacts, milli: int, memory_bytes: int, card_bytes: int, now_ns: int
    ) -> Fraction | None:
        """Compute the micro-units of one share for the hour of an instant; None: it has no price."""
        now_s = now_ns // NANOS_PER_SECOND
        prices = find_list(self._lists, now_s)
        price = None if prices is None else prices.find_price(facts, prices.get_local_hour(now_s))
        card_mib = card_bytes // MIB
        if prices is None or price is None or not card_mib:
            return None
        held_mib = memory_bytes // MIB
        dominant = max(milli * (MICRO // WHOLE_MILLI), held_mib * MICRO // card_mib)
        hour = UsageAmount(milli * HOUR_S, held_mib * HOUR_S, dominant * HOUR_S)
        charged = prices.count_charged(hour, card_mib)
        return compute_cost(charged, price, prices.get_factor_milli(facts))

    def price_span(
        self, facts: ShareFacts, milli: int, start_ns: int, end_ns: int
    ) -> Fraction | None:
        """Compute the micro-units of compute over a time, hour by hour; None: a part has no price."""
        total = Fraction(0)
        at_ns = start_ns
        while at_ns < end_ns:
            at_s = at_ns // NANOS_PER_SECOND
            until_ns = min(end_ns, (at_s - at_s % HOUR_S + HOUR_S) * NANOS_PER_SECOND)
            prices = find_list(self._lists, at_s)
            price = (
                None if prices is None else prices.find_price(facts, prices.get_local_hour(at_s))
            )
            if prices is None or price is None:
                return None
            micro_seconds = Fraction(
                milli * (MICRO // WHOLE_MILLI) * (until_ns - at_ns), NANOS_PER_SECOND
            )
            factor = prices.get_factor_milli(facts)
            total += micro_seconds * compute_cost(1, price, factor)
            at_ns = until_ns
        return total
