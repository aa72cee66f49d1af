"""Kubernetes quantities are read as apimachinery reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadQuantity
from gpupool.kubernetes import quantities


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("0", 0),
        ("2", 2),
        ("8Gi", 8 << 30),
        ("1.5Ki", 1536),
        ("100m", 1),
        ("1k", 1000),
        ("1e3", 1000),
        ("+.5M", 500_000),
    ],
)
def test_whole_units_rounded_up(text: str, whole: int) -> None:
    assert quantities.whole(text) == whole


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1GiB", "--1", "1e", "Ki", "9" * 70, "1.2.3"])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadQuantity, match="not a Kubernetes quantity"):
        quantities.whole(text)


@given(st.integers(0, 1 << 60))
def test_a_size_is_read_back_as_it_was_written(size: int) -> None:
    assert quantities.whole(quantities.bytes_text(size)) == size
