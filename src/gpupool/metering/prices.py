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
from gpupool.metering.books import HOUR_S, MICRO, WHOLE_MILLI, HostAmount, UsageAmount

Rule = Literal["max", "compute-only", "memory-only"]
RULES: tuple[str, ...] = get_args(Rule)
ANY_MODEL = "*"
#: MiB of one GiB.
GIB_MIB = 1024
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
    #: Of one processor; None: processors have no price.
    per_cpu_hour: Decimal | None = None
    #: Of one GiB of main memory; None: main memory has no price.
    per_gib_hour: Decimal | None = None

    def get_price(self, model: str) -> Fraction:
        """Return the price of one card of this model for one second, exactly.

        Raises:
            BadOption: if the model has no price, and others have one.
        """
        if not self.per_card_hour:
            return Fraction(0)
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
    def prices_hosts(self) -> bool:
        """Whether processors or main memory have a price."""
        return self.per_cpu_hour is not None or self.per_gib_hour is not None

    def compute_host_cost(self, amount: HostAmount) -> Fraction:
        """Compute exactly what processors and main memory cost."""
        cpu = Fraction(self.per_cpu_hour or 0) * Fraction(amount.cpu_milli_seconds, WHOLE_MILLI)
        memory = Fraction(self.per_gib_hour or 0) * Fraction(amount.memory_mib_seconds, GIB_MIB)
        return (cpu + memory) / HOUR_S

    @property
    def description(self) -> str:
        parts = list[str]()
        if self.per_card_hour:
            parts.append(
                f"{_SAYS[self.rule]}, times the card's price per hour; what is left of a card is "
                "priced at the rest"
            )
        hosts = list[str]()
        if self.per_cpu_hour is not None:
            hosts.append("processors")
        if self.per_gib_hour is not None:
            hosts.append("main memory")
        if hosts:
            parts.append(f"{' and '.join(hosts)} as long as jobs hold them, times their price")
        return "; ".join(parts)


def parse_prices(
    texts: Sequence[str],
    rule: str = "max",
    currency: str | None = None,
    *,
    cpu: str | None = None,
    memory: str | None = None,
) -> PriceList | None:
    """Parse prices like `H200:2.50` and `*:1`; None without any. Raises BadOption.

    Args:
        texts: of cards.
        rule: which part of a card is charged.
        currency: of all prices.
        cpu: per processor and hour.
        memory: per GiB of main memory and hour.

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
    per_cpu = None if cpu is None else _parse_host_price(cpu, "processor")
    per_gib = None if memory is None else _parse_host_price(memory, "GiB")
    made = PriceList(prices, rule, currency, per_cpu, per_gib)  # type: ignore[arg-type]  # checked against RULES
    return made if prices or made.prices_hosts else None


def _parse_price(text: str) -> tuple[str, Decimal]:
    model, colon, number = text.partition(":")
    model = model.strip()
    if not colon or not model:
        number = ""
    price = _parse_number(number, text, "MODEL:PRICE per card and hour, as H200:2.50")
    return model, price


def _parse_host_price(text: str, unit: str) -> Decimal:
    return _parse_number(text, text, f"a price per {unit} and hour, as 0.04")


def _parse_number(number: str, text: str, form: str) -> Decimal:
    try:
        price = Decimal(number.strip())
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite():
        raise BadOption(f"{text[:80]!r} is not a price", hint=f"write {form}")
    if not 0 <= price <= _HIGHEST or price != price.quantize(_FINEST):
        raise BadOption(
            f"price {text[:80]!r} cannot be used",
            hint="a price is between 0 and 1000000000, with at most six decimals",
        )
    return price


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
