"""How many replicas a load needs: within bounds, monotone, still inside the tolerance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.serving.scaling import (
    GROWTH,
    TOLERANCE,
    LoadMeasure,
    Recommendation,
    ScalingRule,
    decide,
    recommend,
    trim_history,
)

NOW = 10**18
SECOND = NANOS_PER_SECOND
#: The rule is small: what 40 examples do not find, the cases below name.
few = settings(max_examples=40)
counts = st.integers(0, 64)
loads = st.floats(0, 10_000)
targets = st.integers(1, 1000)


@st.composite
def rules(draw: st.DrawFn) -> ScalingRule:
    least = draw(st.integers(0, 64))
    most = draw(st.integers(max(1, least), 64))
    times = st.integers(0, 600).map(lambda seconds: seconds * SECOND)
    return ScalingRule(least, most, draw(targets), draw(times), draw(times))


histories = st.lists(
    st.builds(Recommendation, st.integers(NOW - 900 * SECOND, NOW), counts), max_size=8
)


@few
@given(rules(), counts, st.none() | loads, counts, counts, counts, histories)
def test_a_decision_is_within_the_bounds(
    rule: ScalingRule,
    current: int,
    total: float | None,
    measured: int,
    missing: int,
    waiting: int,
    history: list[Recommendation],
) -> None:
    measure = LoadMeasure(total, measured, missing)
    found = decide(rule, current, measure, waiting, history, NOW)
    assert rule.least <= found.replicas <= rule.most


@few
@given(rules(), counts, loads, loads, counts)
def test_more_load_never_needs_fewer_replicas(
    rule: ScalingRule, current: int, one: float, other: float, missing: int
) -> None:
    low, high = sorted((one, other))
    needs = [recommend(rule, current, LoadMeasure(load, current, missing)) for load in (low, high)]
    if current or missing == 0:
        assert needs[0] is not None
        assert needs[1] is not None
        assert needs[0] <= needs[1]


@few
@given(rules(), st.integers(1, 64), st.floats(-TOLERANCE, TOLERANCE), histories)
def test_a_load_inside_the_tolerance_changes_nothing(
    rule: ScalingRule, current: int, off: float, history: list[Recommendation]
) -> None:
    bounded = min(rule.most, max(rule.least, current))
    total = rule.target * bounded * (1 + off)
    found = decide(rule, bounded, LoadMeasure(total, bounded), 0, history, NOW)
    assert found.replicas == bounded


@few
@given(rules(), counts, histories, counts)
def test_an_unknown_load_changes_nothing(
    rule: ScalingRule, current: int, history: list[Recommendation], missing: int
) -> None:
    bounded = min(rule.most, max(rule.least, current))
    found = decide(rule, bounded, LoadMeasure(None, 0, missing), 0, history, NOW)
    assert found.replicas == bounded
    assert found.needed is None


@few
@given(rules(), counts, loads)
def test_a_constant_load_comes_to_rest(rule: ScalingRule, current: int, total: float) -> None:
    still = replace(rule, up_ns=0, down_ns=0)
    seen = [min(rule.most, max(rule.least, current))]
    for _ in range(8):
        measure = LoadMeasure(total, max(1, seen[-1]))
        seen.append(decide(still, seen[-1], measure, 0, [], NOW).replicas)
    assert seen[-1] == seen[-2]


@pytest.mark.parametrize(
    ("current", "total", "needed"),
    [(1, 30, 3), (3, 30, 3), (3, 32, 3), (3, 34, 4), (4, 11, 2), (2, 0, 0), (0, 0, 0), (0, 1, 1)],
)
def test_the_need_is_that_of_the_formula(current: int, total: float, needed: int) -> None:
    rule = ScalingRule(0, 64, 10)
    assert recommend(rule, current, LoadMeasure(total, max(1, current))) == needed


def test_replicas_end_only_after_the_highest_need_of_the_window() -> None:
    rule = ScalingRule(1, 9, 10, down_ns=60 * SECOND)
    history = [Recommendation(NOW - 50 * SECOND, 4), Recommendation(NOW - 9 * SECOND, 2)]
    assert decide(rule, 5, LoadMeasure(5, 5), 0, history, NOW).replicas == 4
    later = NOW + 11 * SECOND
    assert decide(rule, 5, LoadMeasure(5, 5), 0, history, later).replicas == 2
    assert trim_history(rule, history, later) == history[1:]


def test_replicas_start_only_after_the_lowest_need_of_the_window() -> None:
    rule = ScalingRule(1, 9, 10, up_ns=30 * SECOND)
    history = [Recommendation(NOW - 20 * SECOND, 2)]
    assert decide(rule, 1, LoadMeasure(40, 1), 0, history, NOW).replicas == 2
    assert decide(rule, 1, LoadMeasure(40, 1), 0, history, NOW + 11 * SECOND).replicas == 4


def test_a_flood_doubles_the_replicas_at_most() -> None:
    rule = ScalingRule(1, 64, 1)
    assert decide(rule, 1, LoadMeasure(1000, 1), 0, [], NOW).replicas == 1 + GROWTH
    assert decide(rule, 10, LoadMeasure(1000, 10), 0, [], NOW).replicas == 20


def test_a_waiting_request_starts_the_first_replica_at_once() -> None:
    rule = ScalingRule(0, 3, 10, up_ns=60 * SECOND)
    history = [Recommendation(NOW - SECOND, 0)]
    assert decide(rule, 0, LoadMeasure(None, 0), 1, history, NOW).replicas == 1


def test_replicas_without_a_measure_move_no_decision() -> None:
    rule = ScalingRule(1, 9, 50)
    # One of two at 90 % of its share: with an idle other one both are below the target.
    assert recommend(rule, 2, LoadMeasure(90, 1, 1)) == 2
    # One of two at 10 %: with the other one at its target, 60 of 100 are needed.
    assert recommend(rule, 2, LoadMeasure(10, 1, 1)) == 2
    assert recommend(rule, 3, LoadMeasure(150, 1, 2)) == 3
    assert recommend(rule, 1, LoadMeasure(150, 1, 0)) == 3
