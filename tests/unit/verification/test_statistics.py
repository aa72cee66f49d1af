"""Rates, error bars and moments of change, from what programs said."""

from __future__ import annotations

import random

import pytest

from gpupool.verification.statistics import (
    RateStretch,
    compute_mean_rate,
    compute_overlap,
    estimate_mean,
    find_change,
    list_window_rates,
)

MS = 10**6


def series(*rates: float, width_ms: int = 100, start_ms: int = 0) -> list[RateStretch]:
    edges = [(start_ms + n * width_ms) * MS for n in range(len(rates) + 1)]
    return [RateStretch(a, b, rate) for a, b, rate in zip(edges, edges[1:], rates, strict=False)]


def test_ninety_five_of_a_hundred_intervals_hold_the_truth() -> None:
    source = random.Random(4)
    inside = 0
    for _ in range(400):
        got = estimate_mean([source.gauss(0.3, 0.02) for _ in range(8)])
        assert got.error is not None
        inside += abs(got.mean - 0.3) <= got.error
    assert 0.92 <= inside / 400 <= 0.98


def test_one_value_has_no_error_bar_and_none_is_no_estimate() -> None:
    assert estimate_mean([0.5]).error is None
    with pytest.raises(ValueError, match="no values"):
        estimate_mean([])


def test_a_rate_between_two_moments_weighs_stretches_by_what_lies_between() -> None:
    got = series(0.0, 1.0)
    assert compute_mean_rate(got, 50 * MS, 150 * MS) == pytest.approx(0.5)
    assert compute_mean_rate(got, 75 * MS, 200 * MS) == pytest.approx(0.8)
    assert compute_mean_rate(got, 300 * MS, 400 * MS) is None


def test_windows_are_whole_ones() -> None:
    assert list_window_rates(
        series(0.1, 0.3, 0.5, 0.7, 0.9), 0, 500 * MS, 200 * MS
    ) == pytest.approx([0.2, 0.6])


def test_only_the_time_in_which_all_ran_is_compared() -> None:
    assert compute_overlap([series(1, 1, 1), series(1, 1, start_ms=100)], 50 * MS) == (
        150 * MS,
        300 * MS,
    )
    with pytest.raises(ValueError, match="at one time"):
        compute_overlap([series(1), series(1, start_ms=200)])
    with pytest.raises(ValueError, match="never ran"):
        compute_overlap([series(1), []])


def test_a_change_is_found_at_its_stretch_also_in_noise() -> None:
    source = random.Random(7)
    rates = [0.2 + source.gauss(0, 0.05) for _ in range(20)] + [
        0.6 + source.gauss(0, 0.05) for _ in range(20)
    ]
    assert find_change(series(*rates, width_ms=20), 300 * MS, 0.2, 0.6) == 100 * MS
    assert find_change(series(*reversed(rates), width_ms=20), 300 * MS, 0.6, 0.2) == 100 * MS


def test_a_change_is_never_seen_before_it_was_asked_for() -> None:
    assert find_change(series(0.6, 0.6, 0.6), 150 * MS, 0.2, 0.6) == 0


def test_what_never_changes_has_not_changed() -> None:
    assert find_change(series(0.2, 0.2, 0.2), 0, 0.2, 0.6) is None
    assert find_change(series(0.2, 0.2, 0.6, 0.2, 0.2), 0, 0.2, 0.6) is None
    assert find_change([], 0, 0.2, 0.6) is None
