"""Text and numbers of documents, the same in every format. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.metering.books import HOUR_S, MICRO

#: Card-milliseconds of one GPU-hour, and millionths of a card times seconds.
HOUR_MS = HOUR_S * 1000
HOUR_MICRO = HOUR_S * MICRO
#: Milliwatt-hours of one kWh, and milligrams of one kg.
KWH_MILLI = 10**6
#: Signs with which a spreadsheet begins a formula.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def guard_cell(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula.

    >>> guard_cell("=1+1"), guard_cell("nlp")
    ("'=1+1", 'nlp')
    """
    return f"'{text}" if text.startswith(_FORMULA_SIGNS) else text


def describe_project(project: str, reservation: str, words: Mapping[str, str]) -> str:
    """Describe what of a tenant a line is about: a project, or the unused time of a reservation.

    >>> describe_project("", "nightly", {"reserved": "Reserved, unused"})
    'Reserved, unused: nightly'
    """
    return f"{words['reserved']}: {reservation}" if reservation else project


def format_hours(milliseconds: int | None) -> str | None:
    """Format card-milliseconds as GPU-hours with four decimals; None is unknown.

    >>> format_hours(5_400_000)
    '1.5000'
    """
    return None if milliseconds is None else _divide(milliseconds, HOUR_MS, 4)


def format_energy(number: int | None) -> str | None:
    """Format milliwatt-hours as kWh, or milligrams as kg, with four decimals; None is unknown.

    >>> format_energy(1_500_000)
    '1.5000'
    """
    return None if number is None else _divide(number, KWH_MILLI, 4)


def format_part(measured: int | None, whole: int) -> str | None:
    """Format a part of card time in percent, 100 at most; None is unknown.

    >>> format_part(1, 3), format_part(None, 3)
    ('33.3 %', None)
    """
    if measured is None or not whole:
        return None
    return f"{_divide(min(measured, whole) * 100, whole, 1)} %"


def format_charged(charged_micro_seconds: int) -> str:
    """Format charged millionths of a card times seconds as GPU-hours with four decimals."""
    return _divide(charged_micro_seconds, HOUR_MICRO, 4)


def format_factor(factor_milli: int) -> str:
    """Format thousandths as percent.

    >>> format_factor(700), format_factor(1000)
    ('70 %', '100 %')
    """
    whole, part = divmod(factor_milli, 10)
    return f"{whole}.{part} %" if part else f"{whole} %"


def _divide(number: int, unit: int, decimals: int) -> str:
    scale = 10**decimals
    rounded = (abs(number) * scale * 2 + unit) // (unit * 2)
    sign = "-" if number < 0 and rounded else ""
    return f"{sign}{rounded // scale}.{rounded % scale:0{decimals}}"
