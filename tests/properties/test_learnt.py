"""Whatever a pool has learnt from its past, every policy starts, its prices are finite, and it
places what fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import (
    adopt_native_library,
    get_native_library_path,
)
from gpupool.scheduling.scoring.demand_knowledge import FIRST_CLAIMS, HALF_LIFE, DemandKnowledge
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, round_weights
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.scoring.stream_fill.scarcity import ScarcityPrices
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.properties import whole_pools
from tests.support.scheduling_builders import cards, snapshot, waiting, whole

POOL = cards("4x8xL40S+1x4xT4", hosts=(64_000, 512 * GIB))
EIGHT, ONE, SMALL = whole(8), whole(), Shape(100, GIB)

shapes = st.builds(
    Shape,
    gpu_milli=st.sampled_from([1, 47, 300, 500, 810, 999, WHOLE]),
    memory_bytes=st.sampled_from([None, 1, GIB, 44 * GIB, 1 << 52]),
    count=st.sampled_from([1, 1, 2, 4, 8, 100_000]),
    model=st.sampled_from([None, "T4", "T4|L40S", "no-such-card"]),
    sharing=st.sampled_from([SharingKind.FIXED, SharingKind.FIXED, SharingKind.BEST_EFFORT]),
    cpu_milli=st.sampled_from([0, 1, 8000, 10**9]),
    host_bytes=st.sampled_from([0, 0, 1, 64 * GIB, 1 << 50]),
)
counts = st.sampled_from([1, 2, 70, 910, 100_000, 1_000_000])
histories = st.lists(
    st.tuples(shapes, counts, st.sampled_from([1, 1, FIRST_CLAIMS, HALF_LIFE])), max_size=12
)
"""Claims as they came: a shape, jobs in one submission, and how often that was submitted."""
seen = st.one_of(
    st.integers(0, 10**7),
    st.floats(0, 1e300, allow_nan=False),
    st.sampled_from([0.0, 5e-324, 1e-9, 0.062, 1e308, float("inf"), float("nan"), -1.0]),
)


def learnt(history: Sequence[tuple[Shape, int, int]]) -> ExpectedDemand:
    past = DemandKnowledge(WHOLE * len(POOL))
    for shape, jobs, times in history:
        for _ in range(times):
            past.record_arrival(shape, jobs)
    past.request_update()
    return past.expected_demand


@contextmanager
def in_numpy() -> Iterator[None]:
    """Policies without the compiled kernel."""
    path = get_native_library_path()
    adopt_native_library(None)
    try:
        yield
    finally:
        adopt_native_library(path)


def places_what_fits(policy: str, expected: ExpectedDemand) -> None:
    """By every policy, with any expectation, four claims that fit are placed."""
    queue = [waiting(f"j{n}", want=want) for n, want in enumerate((ONE, SMALL, whole(4), whole(8)))]
    now = replace(snapshot(POOL, *queue, policy=policy), expected=expected)
    with np.errstate(all="raise"):
        plan = cycle(now, 0, board=PlanningState(now))
    assert sorted(one.job for one in plan.placements) == ["j0", "j1", "j2", "j3"]


def prices_are_finite(expected: ExpectedDemand) -> None:
    classes = build_classes(expected)
    free = FreeCapacity(POOL)
    with np.errstate(all="raise"):
        for ending in (False, True):
            prices = ScarcityPrices(free, NodeKinds(POOL, classes), classes, ending=ending)
            assert (prices.price >= 0).all()
            assert (prices.price <= WHOLE * prices.count).all()
            assert ((prices.toll >= 0) & (prices.toll <= WHOLE)).all()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_old_claim_beside_arrays_of_100000_stops_no_policy(policy: str) -> None:
    """The history that stopped the placer: the weight of the claim to eight cards was rounded to
    0."""
    expected = learnt([(EIGHT, 1, 1), (ONE, 1, 910), (ONE, 100_000, 2), (ONE, 1, 70)])
    assert EIGHT in expected.shapes
    prices_are_finite(expected)
    places_what_fits(policy, expected)


@settings(whole_pools, max_examples=60)
@given(
    histories, st.sampled_from([0, 49, 50, 100]), st.sampled_from(sorted(POLICIES)), st.booleans()
)
def test_any_history_of_arrivals_leaves_a_policy_that_places(
    history: Sequence[tuple[Shape, int, int]], returned_pct: int, policy: str, compiled: bool
) -> None:
    expected = replace(learnt(history), returned_pct=returned_pct)
    prices_are_finite(expected)
    with nullcontext() if compiled else in_numpy():
        places_what_fits(policy, expected)


@settings(whole_pools, max_examples=60)
@given(st.lists(st.tuples(shapes, seen), max_size=12), st.sampled_from([0, 100]))
def test_any_decayed_state_leaves_the_default_policy_placing(
    state: Sequence[tuple[Shape, float]], returned_pct: int
) -> None:
    expected = ExpectedDemand(
        tuple(shape for shape, _ in state), tuple(count for _, count in state), returned_pct
    )
    prices_are_finite(expected)
    places_what_fits("default", expected)


@pytest.mark.parametrize("count", [float("nan"), float("inf"), 1e308])
def test_a_damaged_count_leaves_the_default_policy_placing(count: float) -> None:
    for part in (SMALL, Shape(810, GIB)):
        expected = ExpectedDemand((part, ONE), (1e308, count), 0)
        prices_are_finite(expected)
        places_what_fits("default", expected)


@given(st.lists(seen, max_size=20))
def test_weights_are_whole_positive_where_something_was_seen_and_bounded(
    seen_counts: Sequence[float],
) -> None:
    weights = round_weights(seen_counts)
    assert [weight > 0 for weight in weights] == [count > 0 for count in seen_counts]
    assert sum(weights) <= 1_000_000 + len(weights)
