"""Money as integers of micro-units: parsing and printing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from gpupool.base.errors import BadOption
from gpupool.metering.books import HOUR_S, MICRO, WHOLE_MILLI

#: Micro-units of one unit of a currency.
UNIT_MICRO = 1_000_000
#: Micro-units of the smallest amount on a document: a cent.
CENT_MICRO = 10_000
#: Bound of an amount: sums of many stay far below a 64-bit integer.
HIGHEST_MICRO = 10**12 * UNIT_MICRO


def parse_money(text: str, what: str = "amount", *, signed: bool = False) -> int:
    """Parse a decimal amount to micro-units. Raises BadOption.

    >>> parse_money("2.50"), parse_money("-0.000001", signed=True)
    (2500000, -1)
    """
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or abs(amount) > HIGHEST_MICRO // UNIT_MICRO:
        raise BadOption(
            f"{what} {text[:40]!r} is no amount", hint="write it as 2.50, at most 1000000000000"
        )
    micro = amount * UNIT_MICRO
    if micro != micro.to_integral_value():
        raise BadOption(f"{what} {text[:40]!r} has more than six decimals", hint="write it as 2.50")
    if micro < 0 and not signed:
        raise BadOption(f"{what} {text[:40]!r} is below 0", hint="write it as 2.50")
    return int(micro)


def format_money(micro: int) -> str:
    """Format micro-units exactly, with two decimals at least.

    >>> format_money(2_500_000), format_money(-1)
    ('2.50', '-0.000001')
    """
    sign = "-" if micro < 0 else ""
    units, part = divmod(abs(micro), UNIT_MICRO)
    decimals = f"{part:06}"
    return f"{sign}{units}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def format_cents(micro: int) -> str:
    """Format micro-units that are whole cents.

    >>> format_cents(12_340_000)
    '12.34'
    """
    sign = "-" if micro < 0 else ""
    units, part = divmod(abs(micro), UNIT_MICRO)
    return f"{sign}{units}.{part // CENT_MICRO:02}"


def compute_cost(charged_micro_seconds: int, price_micro: int, factor_milli: int) -> Fraction:
    """Compute exactly what a share costs, in micro-units.

    Args:
        charged_micro_seconds: millionths of a card times seconds.
        price_micro: micro-units per card and hour.
        factor_milli: thousandths of the price that are charged.

    >>> compute_cost(MICRO * HOUR_S, 2_500_000, 700)
    Fraction(1750000, 1)
    """
    return Fraction(
        charged_micro_seconds * price_micro * factor_milli, MICRO * HOUR_S * WHOLE_MILLI
    )


def apportion(exact: Sequence[Fraction], unit_micro: int = 1) -> tuple[list[int], int]:
    """Round amounts to multiples of a unit so that they add up to the rounded total.

    The largest remainders are rounded up (Hamilton's method of apportionment).

    >>> apportion([Fraction(10, 3), Fraction(10, 3), Fraction(10, 3)])
    ([4, 3, 3], 10)
    """
    scaled = [Fraction(amount) / unit_micro for amount in exact]
    total = round(sum(scaled, Fraction(0)))
    whole = [amount.__floor__() for amount in scaled]
    order = sorted(range(len(exact)), key=lambda n: (whole[n] - scaled[n], n))
    for n in order[: total - sum(whole)]:
        whole[n] += 1
    return [units * unit_micro for units in whole], total * unit_micro
