"""Values in the unit they were meant in, or a refusal that says which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpupool.base.errors import ForeignValue
from gpupool.dialects import amounts
from gpupool.dialects.pod import PlacedWord

GIB = 1 << 30


def word(value: Any) -> PlacedWord:
    return PlacedWord("key", value, ("place",))


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (amounts.parse_mebibytes, 8192, 8 * GIB),
        (amounts.parse_mebibytes, "64", 64 << 20),
        (amounts.parse_gibibytes, 8, 8 * GIB),
        (amounts.parse_size, "8Gi", 8 * GIB),
        (amounts.parse_size, "100.5Mi", 101 << 20),
        (amounts.parse_percent, 30, 300),
        (amounts.parse_fraction, "0.125", 125),
        (amounts.parse_hundreds, 30, (1, 300)),
        (amounts.parse_hundreds, 100, (1, 1000)),
        (amounts.parse_hundreds, 400, (4, 1000)),
        (amounts.read_truth, True, True),
        (amounts.read_truth, "0", False),
        (amounts.read_list, "a, b,,a", ("a", "b")),
    ],
)
def test_a_value_is_read(read: Callable[[PlacedWord], Any], value: Any, found: Any) -> None:
    assert read(word(value)) == found


@pytest.mark.parametrize(
    ("read", "value", "hint"),
    [
        (amounts.parse_mebibytes, 8, "write 8192 for 8 GiB"),
        (amounts.parse_mebibytes, 8 * GIB, "write 8192 for so many bytes"),
        (amounts.parse_gibibytes, 8192, "write 8 for 8192 MiB"),
        (amounts.parse_size, 8, "write it with its unit, like 8Gi"),
        (amounts.parse_hundreds, 150, "write 100 or 200"),
        (amounts.parse_fraction, 0.3333, "write 0.333"),
        (amounts.read_truth, "yes", "one of: true, false, 1, 0"),
        (amounts.read_list, " , ", ""),
        (amounts.read_name, "a,b", ""),
        (amounts.read_text, None, ""),
    ],
)
def test_a_refusal_says_what_to_write_and_where(
    read: Callable[[PlacedWord], Any], value: Any, hint: str
) -> None:
    with pytest.raises(ForeignValue) as refused:
        read(word(value))
    assert refused.value.hint == hint
    assert refused.value.details["path"] == ("place",)


def test_a_total_comes_out_even_or_is_refused() -> None:
    assert amounts.split_evenly(300, 2, word(300)) == 150
    with pytest.raises(ForeignValue, match="does not divide evenly over 4 cards"):
        amounts.split_evenly(310, 4, word(310))
    with pytest.raises(ForeignValue, match="does not divide evenly over 2 cards"):
        amounts.split_evenly(150, 2, word(15), 50)
