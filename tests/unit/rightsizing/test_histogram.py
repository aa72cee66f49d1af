"""Bins of use, and what they say of percentiles and of time above a limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.rightsizing.histogram import BINS, UseHistogram

USES = st.lists(st.tuples(st.integers(0, 1100), st.floats(0.1, 1e5)), min_size=1, max_size=30)


def build_histogram(uses: list[tuple[int, float]]) -> UseHistogram:
    found = UseHistogram()
    for milli, seconds in uses:
        found.add(milli, seconds)
    return found


@settings(max_examples=40)
@given(USES, st.floats(1, 100))
def test_a_percentile_is_exceeded_for_no_more_than_the_rest(
    uses: list[tuple[int, float]], percent: float
) -> None:
    found = build_histogram(uses)

    limit = found.find_percentile(percent)

    assert limit is not None
    above = sum(seconds for milli, seconds in uses if min(milli, 1000) > limit)
    assert above <= found.total * (100 - percent) / 100 + 1e-6 * found.total


@settings(max_examples=40)
@given(USES, st.integers(0, 1000))
def test_time_above_a_limit_is_never_too_low(uses: list[tuple[int, float]], limit: int) -> None:
    above = sum(seconds for milli, seconds in uses if min(milli, 1000) > limit)

    assert build_histogram(uses).count_above(limit) >= above - 1e-6 * above


def test_an_empty_histogram_knows_no_percentile() -> None:
    assert UseHistogram().find_percentile(95) is None
    assert UseHistogram().count_above(0) == 0


def test_bins_survive_the_books() -> None:
    found = build_histogram([(0, 10.5), (333, 2.25), (1000, 1)])

    read = UseHistogram.from_milliseconds(found.to_milliseconds(), found.highest_milli)

    assert read.seconds == found.seconds
    assert read.highest_milli == 1000


def test_another_number_of_bins_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{BINS} bins, not 3"):
        UseHistogram([1, 2, 3])
