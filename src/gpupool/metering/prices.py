"""Compute costs from the books: the books have seconds, a rule says what they cost.

Money adds up as time does: what tenants pay plus idle, overhead and unmanaged is price times
card-hours. Under the rule `max`, two shares that complement each other on one card (one mostly
compute, one mostly memory) are charged for more than the card. The difference is the pool's gain
and stands as a negative cost of what was idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, get_args

from gpupool.base.errors import BadOption
from gpupool.metering.books import MICRO, WHOLE_MILLI, UsageAmount

Rule = Literal["max", "compute-only", "memory-only"]
RULES: tuple[str, ...] = get_args(Rule)
ANY_MODEL = "*"
#: Decimals of a cost.
DIGITS = 2
#: Bounds of a price: beyond them it is a mistyped one, and sums would be too long to print.
_HIGHEST = Decimal(10) ** 9
_FINEST = Decimal("0.000001")

_SAYS: Mapping[str, str] = {
    "max": "the larger of a share's part of compute and of memory",
    "compute-only": "a share's part of the compute",
    "memory-only": "a share's part of the memory",
}


@dataclass(frozen=True)
class PriceList:
    """What one card costs per hour, by model; `*` prices every model that is not named."""

    per_card_hour: Mapping[str, Decimal]
    rule: Rule = "max"
    currency: str | None = None

    def get_price(self, model: str) -> Fraction:
        """Return the price of one card of this model for one second, exactly.

        Raises:
            BadOption: if the model has no price.
        """
        price = self.per_card_hour.get(model, self.per_card_hour.get(ANY_MODEL))
        if price is None:
            raise BadOption(
                f"no price for {model}, which is in this report",
                hint=f"add --price {model}:PRICE_PER_CARD_HOUR, or --price '*:PRICE' for every other model",
            )
        return Fraction(price) / 3600

    def count_card_seconds(self, amount: UsageAmount, card_memory_mib: int) -> Fraction:
        """Compute the card-seconds that a share is charged for."""
        if self.rule == "compute-only":
            return Fraction(amount.card_milliseconds, WHOLE_MILLI)
        if self.rule == "memory-only":
            return Fraction(amount.memory_mib_seconds, card_memory_mib or 1)
        return Fraction(amount.dominant_micro_seconds, MICRO)

    @property
    def description(self) -> str:
        return f"{_SAYS[self.rule]}, times the card's price per hour; what is left of a card is priced at the rest"


def parse_prices(
    texts: Sequence[str], rule: str = "max", currency: str | None = None
) -> PriceList | None:
    """Parse prices like `H200:2.50` and `*:1`; None without any. Raises BadOption.

    >>> parse_prices(["H200:2.50"]).per_card_hour
    {'H200': Decimal('2.50')}
    """
    if rule not in RULES:
        raise BadOption(f"unknown price rule {rule[:40]!r}", hint=f"rules: {', '.join(RULES)}")
    prices: dict[str, Decimal] = {}
    for text in texts:
        model, price = _parse_price(text)
        if model in prices:
            raise BadOption(f"two prices for {model}", hint="give one price per model")
        prices[model] = price
    return PriceList(prices, rule, currency) if prices else None  # type: ignore[arg-type]  # checked against RULES


def _parse_price(text: str) -> tuple[str, Decimal]:
    model, colon, number = text.partition(":")
    model = model.strip()
    try:
        price = Decimal(number.strip())
    except InvalidOperation:
        price = Decimal("NaN")
    if not colon or not model or not price.is_finite():
        raise BadOption(
            f"{text[:80]!r} is not a price",
            hint="write MODEL:PRICE per card and hour, as H200:2.50",
        )
    if not 0 <= price <= _HIGHEST or price != price.quantize(_FINEST):
        raise BadOption(
            f"price {text[:80]!r} cannot be used",
            hint="a price is between 0 and 1000000000, with at most six decimals",
        )
    return model, price


def round_to_total(exact: Sequence[Fraction], digits: int = DIGITS) -> tuple[list[str], str]:
    """Round amounts so that they add up to the rounded total.

    The largest remainders are rounded up (Hamilton's method of apportionment).

    >>> round_to_total([Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)])
    (['0.34', '0.33', '0.33'], '1.00')
    """
    scaled = [amount * 10**digits for amount in exact]
    total = round(sum(scaled, Fraction(0)))
    whole = [amount.__floor__() for amount in scaled]
    order = sorted(range(len(exact)), key=lambda n: (whole[n] - scaled[n], n))
    for n in order[: total - sum(whole)]:
        whole[n] += 1
    return [_format_units(units, digits) for units in whole], _format_units(total, digits)


def _format_units(units: int, digits: int) -> str:
    return str(Decimal(units).scaleb(-digits))
