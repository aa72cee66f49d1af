"""Kubernetes' quantities, exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.errors import BadQuantity
from gpupool.base.quantities import format_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8Gi", 8 << 30),
        ("8G", 8 * 10**9),
        ("500m", Fraction(1, 2)),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1E2", 100),
        ("1.5Ki", 1536),
        (".5", Fraction(1, 2)),
        (3000, 3000),
        (0.1, Fraction(1, 10)),
        ("+2", 2),
        ("-1", -1),
    ],
)
def test_a_quantity_is_its_exact_number(text: Any, value: Any) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "8GB", "Gi", "1e", "1_000", "٣", True, None, [], "8 Gi", "1e999", "9" * 101]
)
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(BadQuantity, match="is no quantity"):
        parse_quantity(text)


@given(st.integers(0, 1 << 60))
@settings(deadline=None)
def test_bytes_are_written_so_that_they_read_the_same(size: int) -> None:
    assert parse_quantity(format_bytes(size)) == size
