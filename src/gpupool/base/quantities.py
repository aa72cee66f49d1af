"""Parses and formats Kubernetes quantities like `8Gi`, `500m`, `1e3` and `12`. Exact.

The rules are those of k8s.io/apimachinery's `resource.Quantity`: decimal suffixes n u m k M G T P
E, binary ones Ki Mi Gi Ti Pi Ei, or an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from gpupool.base.errors import BadQuantity
from gpupool.base.units import MIB

#: `m` is a thousandth and `M` a million, as in resource.Quantity.
_SUFFIXES = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{
        suffix: Fraction(10) ** power
        for suffix, power in zip("kMGTPE", range(3, 21, 3), strict=True)
    },
    **{
        f"{suffix}i": Fraction(2) ** power
        for suffix, power in zip("KMGTPE", range(10, 70, 10), strict=True)
    },
    "": Fraction(1),
}
#: Bounded: a text of a million digits would take minutes to become a number.
_FORM = re.compile(
    r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))(?:([eE][+-]?[0-9]{1,2})|([A-Za-z]{0,2}))"
)


#: So many texts are cached with their number: pods repeat them, and a Fraction is slow to make.
KNOWN = 4096


def parse_quantity(value: object) -> Fraction:
    """Parse a quantity as YAML holds it: a text, an integer or a decimal. Raises BadQuantity.

    >>> parse_quantity("8Gi") == 8 << 30, parse_quantity("500m"), parse_quantity(0.1)
    (True, Fraction(1, 2), Fraction(1, 10))
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _make_error(value)
    return _parse_text(value)


@lru_cache(KNOWN, typed=True)
def _parse_text(value: str | float) -> Fraction:
    text = str(value).strip()
    found = _FORM.fullmatch(text) if len(text) <= 100 else None
    if found is None or (found.group(3) or "") not in _SUFFIXES:
        raise _make_error(value)
    number, exponent, suffix = found.groups()
    return Fraction(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def _make_error(value: object) -> BadQuantity:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return BadQuantity(f"{shown} is no quantity", hint="write it like 2, 8Gi or 500m")


def parse_whole(value: object) -> int:
    """Parse whole units (bytes, cards, pods), rounded up as Kubernetes does. Raises BadQuantity.

    >>> parse_whole("8Gi"), parse_whole("1500m")
    (8589934592, 2)
    """
    return ceil(parse_quantity(value))


def parse_milli(value: object) -> int:
    """Parse thousandths, as processors are counted, rounded up. Raises BadQuantity.

    >>> parse_milli("2"), parse_milli("250m"), parse_milli("1u")
    (2000, 250, 1)
    """
    return ceil(parse_quantity(value) * 1000)


def format_bytes(size: int) -> str:
    """Format bytes as a quantity, in whole GiB or MiB where that is exact.

    >>> format_bytes(8 << 30), format_bytes(3000 << 20), format_bytes(5)
    ('8Gi', '3000Mi', '5')
    """
    if size % (MIB << 10) == 0:
        return f"{size // (MIB << 10)}Gi"
    return f"{size // MIB}Mi" if size % MIB == 0 else str(size)
