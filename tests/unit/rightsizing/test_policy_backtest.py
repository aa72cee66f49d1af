"""A policy judged by the past: what it changes, what it starves, and what its guard takes back."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.rightsizing.advice import Confidence
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.policy import AdviceBounds, AdviceMode
from gpupool.rightsizing.policy_backtest import run_policy_backtest
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare

HOUR = 3600
BOUNDS = AdviceBounds(AdviceMode.APPLY, most_cut_percent=90, confidence=Confidence.LOW)


def make_run(number: int, milli: int, *, gib: int = 2, asked: int = 1000) -> MeasuredRun:
    use = UseHistogram()
    use.add(milli, HOUR)
    share = RequestedShare(asked, 40 * GIB)
    start_s = number * HOUR
    return MeasuredRun(f"j-{number}", start_s, start_s + HOUR, share, use, peak_bytes=gib * GIB)


def test_runs_with_known_advice_get_less_and_nothing_is_starved() -> None:
    found = run_policy_backtest([[make_run(number, 200) for number in range(8)]], BOUNDS)

    assert (found.runs, found.judged, found.changed, found.returned) == (8, 3, 3, 0)
    assert found.starved_part == 0.0
    # 0.3 of a card in place of 1.
    assert found.saved_part == pytest.approx(0.7)


def test_a_run_that_needs_more_gets_it_back_and_its_family_is_left_alone() -> None:
    uses = [200] * 5 + [900, 200, 200]

    found = run_policy_backtest([[make_run(n, milli) for n, milli in enumerate(uses)]], BOUNDS)

    assert (found.changed, found.returned, found.pauses) == (1, 1, 1)
    # All of its time until it was seen: 30 s at its limit, and the 300 s until that is written.
    assert found.starved_seconds == pytest.approx(330)
    assert found.starved_part == pytest.approx(330 / (3 * HOUR))
    assert found.starved_part_of_changed == pytest.approx(330 / HOUR)


def test_a_run_that_fills_its_memory_pauses_its_family() -> None:
    runs = [make_run(number, 200) for number in range(5)]

    found = run_policy_backtest([[*runs, make_run(5, 200, gib=9), make_run(6, 200)]], BOUNDS)

    assert (found.changed, found.short_of_memory, found.pauses) == (1, 1, 1)


def test_a_policy_that_is_off_changes_nothing() -> None:
    off = AdviceBounds(AdviceMode.OFF)

    found = run_policy_backtest([[make_run(number, 200) for number in range(8)]], off)

    assert (found.judged, found.changed, found.saved_hours) == (3, 0, 0.0)
    assert found.starved_part_of_changed is None
