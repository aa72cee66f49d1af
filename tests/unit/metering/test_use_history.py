"""Histories of use: few points for a run of any length, with the right times and rates."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpupool.metering.use import compute_use_columns
from gpupool.metering.use_history import FIRST_STEP_NS, MOST_POINTS, UseHistory, UsePoint

SECOND = 10**9


def fill(history: UseHistory, seconds: int) -> None:
    """A sample each second of a job that has half of a card."""
    for second in range(seconds):
        history.add_point(UsePoint(second * SECOND, second * 500, 100 + second))


def test_points_are_as_far_apart_as_the_step() -> None:
    history = UseHistory()
    fill(history, 61)
    instants = [point.at_ns for point in history.list_points()]
    assert instants == [number * FIRST_STEP_NS for number in range(7)]


@pytest.mark.parametrize("hours", [1, 24])
def test_a_long_run_has_few_points_that_reach_from_its_start_to_now(hours: int) -> None:
    history = UseHistory()
    fill(history, hours * 3600)
    points = list(history.list_points())
    assert MOST_POINTS // 2 - 1 <= len(points) < MOST_POINTS
    steps = {late.at_ns - early.at_ns for early, late in pairwise(points)}
    assert max(steps) <= 2 * min(steps)
    assert points[0].at_ns <= max(steps)
    assert hours * 3600 * SECOND - points[-1].at_ns <= max(steps)
    columns = compute_use_columns(points, 500)
    assert set(columns["gpu_percent"]) == {50.0}
    assert set(columns["share_percent"]) == {100.0}


def test_what_was_not_measured_is_unknown_and_not_nothing() -> None:
    history = UseHistory()
    for number, gpu in enumerate((None, 1000, 500, 1500)):
        history.add_point(UsePoint(number * FIRST_STEP_NS, gpu, None))
    columns = compute_use_columns(list(history.list_points()), 0)
    # A sum that went back is that of a job that was started again.
    assert columns["gpu_percent"] == [None, None, 10.0]
    assert columns["share_percent"] == [None, None, None]
    assert columns["memory_bytes"] == [None, None, None]
