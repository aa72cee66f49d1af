"""Kubernetes quantities as integers and back; the grammar is that of apimachinery's `resource.Quantity`.

    quantity = sign? digits ('.' digits)? suffix;  suffix = n u m "" k M G T P E | Ki Mi Gi Ti Pi Ei | [eE] sign? digits

Fractions of the unit that is counted are rounded up, as Kubernetes does it.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

from gpupool.base.errors import BadQuantity

_BINARY = {suffix: 1 << 10 * n for n, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([A-Za-z]{0,2}))")
_LONGEST = 64


def exact(text: str | int | float) -> Decimal:
    """The quantity as a number. Raises BadQuantity.

    >>> exact("1.5Gi") == 3 << 29, exact("250m"), exact("1e3")
    (True, Decimal('0.250'), Decimal('1E+3'))
    """
    word = str(text).strip()
    found = _FORM.fullmatch(word) if len(word) <= _LONGEST else None
    if found is None or (not found[2] and found[3] not in _DECIMAL and found[3] not in _BINARY):
        raise BadQuantity(f"{word[:_LONGEST]!r} is not a Kubernetes quantity", hint="write it like 8Gi, 500m or 2")
    if found[2]:
        return Decimal(found[1] + found[2])
    if found[3] in _BINARY:
        return Decimal(found[1]) * _BINARY[found[3]]
    return Decimal(found[1]).scaleb(_DECIMAL[found[3]])


def whole(text: str | int | float) -> int:
    """Bytes, pods, cards: whole units, rounded up.

    >>> whole("8Gi"), whole("1500m")
    (8589934592, 2)
    """
    return int(exact(text).to_integral_value(ROUND_CEILING))


def milli(text: str | int | float) -> int:
    """Thousandths, as processors are counted.

    >>> milli("2"), milli("250m"), milli("1u")
    (2000, 250, 1)
    """
    return int((exact(text) * 1000).to_integral_value(ROUND_CEILING))


def bytes_text(size: int) -> str:
    """The shortest exact way to write a size.

    >>> bytes_text(8 << 30), bytes_text(1536 << 20), bytes_text(1000)
    ('8Gi', '1536Mi', '1000')
    """
    for suffix, unit in reversed(_BINARY.items()):
        if size and size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)
