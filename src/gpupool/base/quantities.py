"""Kubernetes' way to write numbers: `8Gi`, `500m`, `1e3`, `12`. Exact; the other half of `units`.

The rules are those of k8s.io/apimachinery's `resource.Quantity`: decimal suffixes n u m k M G T P E, binary ones
Ki Mi Gi Ti Pi Ei, or an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from gpupool.base.errors import BadQuantity
from gpupool.base.units import MIB

_SUFFIXES = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Fraction(10) ** power for suffix, power in zip("kMGTPE", range(3, 21, 3), strict=True)},
    **{f"{suffix}i": Fraction(2) ** power for suffix, power in zip("KMGTPE", range(10, 70, 10), strict=True)},
    "": Fraction(1),
}
_FORM = re.compile(r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))(?:([eE][+-]?[0-9]{1,2})|([A-Za-z]{0,2}))")


KNOWN = 4096
"""So many are remembered with their number: pods repeat them, and a fraction takes long to make."""


def parse_quantity(value: object) -> Fraction:
    """The number of a quantity as YAML gives it: text, an integer or a decimal. Raises BadQuantity.

    >>> parse_quantity("8Gi") == 8 << 30, parse_quantity("500m"), parse_quantity(0.1)
    (True, Fraction(1, 2), Fraction(1, 10))
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _no_quantity(value)
    return _parsed(value)


@lru_cache(KNOWN, typed=True)
def _parsed(value: str | float) -> Fraction:
    text = str(value).strip()
    found = _FORM.fullmatch(text) if len(text) <= 100 else None
    if found is None or (found.group(3) or "") not in _SUFFIXES:
        raise _no_quantity(value)
    number, exponent, suffix = found.groups()
    return Fraction(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def _no_quantity(value: object) -> BadQuantity:
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return BadQuantity(f"{shown} is no quantity", hint="write it like 2, 8Gi or 500m")


def whole(value: object) -> int:
    """Whole units (bytes, cards, pods), rounded up as Kubernetes does it. Raises BadQuantity.

    >>> whole("8Gi"), whole("1500m")
    (8589934592, 2)
    """
    return ceil(parse_quantity(value))


def milli(value: object) -> int:
    """Thousandths, as processors are counted; rounded up. Raises BadQuantity.

    >>> milli("2"), milli("250m"), milli("1u")
    (2000, 250, 1)
    """
    return ceil(parse_quantity(value) * 1000)


def format_bytes(size: int) -> str:
    """A byte count as a quantity: whole GiB or MiB where it is that.

    >>> format_bytes(8 << 30), format_bytes(3000 << 20), format_bytes(5)
    ('8Gi', '3000Mi', '5')
    """
    if size % (MIB << 10) == 0:
        return f"{size // (MIB << 10)}Gi"
    return f"{size // MIB}Mi" if size % MIB == 0 else str(size)
