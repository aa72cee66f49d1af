"""Prices, put on the books afterwards: the ledger knows seconds, a rule says what they cost.

Money closes as time does: what tenants pay plus idle, overhead and unmanaged is price times
card-hours. Under the rule `max` two shares that complement each other on one card (one
mostly compute, one mostly memory) are charged for more than the card; the difference is the
pool's gain and stands as a negative cost of what was idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal, get_args

from gpupool.base.errors import BadOption
from gpupool.metering.books import MICRO, WHOLE_MILLI, Amount

Rule = Literal["max", "compute-only", "memory-only"]
RULES: tuple[str, ...] = get_args(Rule)
ANY_MODEL = "*"
DIGITS = 2
_HIGHEST = Decimal(10) ** 9
_FINEST = Decimal("0.000001")

_SAYS: Mapping[str, str] = {
    "max": "the larger of a share's part of compute and of memory",
    "compute-only": "a share's part of the compute",
    "memory-only": "a share's part of the memory",
}


@dataclass(frozen=True)
class Prices:
    """What one card costs per hour, by model; `*` prices every model that is not named."""

    per_card_hour: Mapping[str, Decimal]
    rule: Rule = "max"
    currency: str | None = None

    def of(self, model: str) -> Fraction:
        """Price of one card of this model for one second. Raises BadOption where there is none."""
        price = self.per_card_hour.get(model, self.per_card_hour.get(ANY_MODEL))
        if price is None:
            raise BadOption(
                f"no price for {model}, which is in this report",
                hint=f"add --price {model}:PRICE_PER_CARD_HOUR, or --price '*:PRICE' for every other model",
            )
        return Fraction(price) / 3600

    def cards(self, amount: Amount, card_memory_mib: int) -> Fraction:
        """Card-seconds that a share is charged for."""
        if self.rule == "compute-only":
            return Fraction(amount.card_milliseconds, WHOLE_MILLI)
        if self.rule == "memory-only":
            return Fraction(amount.memory_mib_seconds, card_memory_mib or 1)
        return Fraction(amount.dominant_micro_seconds, MICRO)

    @property
    def says(self) -> str:
        return f"{_SAYS[self.rule]}, times the card's price per hour; what is left of a card is priced at the rest"


def parse_prices(texts: Sequence[str], rule: str = "max", currency: str | None = None) -> Prices | None:
    """Prices of `H200:2.50`, `*:1`; None where there are none. Raises BadOption.

    >>> parse_prices(["H200:2.50"]).per_card_hour
    {'H200': Decimal('2.50')}
    """
    if rule not in RULES:
        raise BadOption(f"unknown price rule {rule[:40]!r}", hint=f"rules: {', '.join(RULES)}")
    prices: dict[str, Decimal] = {}
    for text in texts:
        model, price = _one(text)
        if model in prices:
            raise BadOption(f"two prices for {model}", hint="give one price per model")
        prices[model] = price
    return Prices(prices, rule, currency) if prices else None  # type: ignore[arg-type]  # checked against RULES


def _one(text: str) -> tuple[str, Decimal]:
    model, colon, number = text.partition(":")
    model = model.strip()
    try:
        price = Decimal(number.strip())
    except InvalidOperation:
        price = Decimal("NaN")
    if not colon or not model or not price.is_finite():
        raise BadOption(f"{text[:80]!r} is not a price", hint="write MODEL:PRICE per card and hour, as H200:2.50")
    if not 0 <= price <= _HIGHEST or price != price.quantize(_FINEST):
        raise BadOption(
            f"price {text[:80]!r} cannot be used",
            hint="a price is between 0 and 1000000000, with at most six decimals",
        )
    return model, price


def apportion(exact: Sequence[Fraction], digits: int = DIGITS) -> tuple[list[str], str]:
    """Amounts rounded so that what is printed adds up to the printed total: the largest remainders go up.

    >>> apportion([Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)])
    (['0.34', '0.33', '0.33'], '1.00')
    """
    scaled = [amount * 10**digits for amount in exact]
    total = round(sum(scaled, Fraction(0)))
    whole = [amount.__floor__() for amount in scaled]
    order = sorted(range(len(exact)), key=lambda n: (whole[n] - scaled[n], n))
    for n in order[: total - sum(whole)]:
        whole[n] += 1
    return [_text(units, digits) for units in whole], _text(total, digits)


def _text(units: int, digits: int) -> str:
    return str(Decimal(units).scaleb(-digits))
