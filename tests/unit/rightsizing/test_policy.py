"""A policy never leaves its bounds, never gives more than was asked, and leaves what is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, MIB
from gpupool.rightsizing.advice import Advice, AdviceKind, Confidence
from gpupool.rightsizing.policy import (
    AdviceBounds,
    AdviceMode,
    AdviceTarget,
    BoundedShare,
    is_memory_too_small,
    limit_advice,
    list_loosened,
    tighten_bounds,
)
from gpupool.rightsizing.runs import RequestedShare

BOUNDS = st.builds(
    AdviceBounds,
    mode=st.sampled_from(AdviceMode),
    target=st.sampled_from(AdviceTarget),
    least_milli=st.integers(1, 1000),
    most_cut_percent=st.integers(1, 99),
    least_bytes=st.integers(1, 80 * GIB),
    confidence=st.sampled_from(Confidence),
)
SHARES = st.builds(
    RequestedShare, gpu_milli=st.integers(0, 1000), memory_bytes=st.integers(1, 80 * GIB)
)
ADVICE = st.builds(
    Advice,
    kind=st.sampled_from(AdviceKind),
    gpu_milli=st.none() | st.integers(1, 1000),
    memory_bytes=st.none() | st.integers(1, 80 * GIB),
    confidence=st.none() | st.sampled_from(Confidence),
)
SHRINK = Advice(AdviceKind.SHRINK, 150, 2 * GIB, Confidence.HIGH)


@settings(max_examples=40)
@given(BOUNDS, SHARES, ADVICE)
def test_a_given_share_is_within_the_bounds_and_the_request(
    bounds: AdviceBounds, share: RequestedShare, advice: Advice
) -> None:
    found = limit_advice(bounds, share, advice)

    if found is None:
        return
    assert bounds.mode is not AdviceMode.OFF
    assert advice.kind is not AdviceKind.UNKNOWN
    assert found.gpu_milli <= share.gpu_milli
    assert found.memory_bytes <= share.memory_bytes
    assert found != BoundedShare(share.gpu_milli, share.memory_bytes)
    kept = 100 - bounds.most_cut_percent
    if found.gpu_milli < share.gpu_milli:
        assert advice.gpu_milli is not None
        assert found.gpu_milli >= max(advice.gpu_milli, bounds.least_milli)
        assert found.gpu_milli * 100 >= share.gpu_milli * kept
    if found.memory_bytes < share.memory_bytes:
        assert advice.memory_bytes is not None
        assert found.memory_bytes >= max(advice.memory_bytes, bounds.least_bytes)
        assert found.memory_bytes * 100 >= share.memory_bytes * kept


@settings(max_examples=40)
@given(BOUNDS, BOUNDS)
def test_combined_bounds_allow_no_more_than_each(one: AdviceBounds, other: AdviceBounds) -> None:
    found = tighten_bounds([one, other])

    assert list_loosened(found, one) == []
    assert list_loosened(found, other) == []


@pytest.mark.parametrize(
    ("bounds", "given_share"),
    [
        (AdviceBounds(most_cut_percent=99), BoundedShare(150, 2 * GIB)),
        (AdviceBounds(most_cut_percent=50), BoundedShare(500, 40 * GIB)),
        (AdviceBounds(most_cut_percent=90, least_milli=300), BoundedShare(300, 8 * GIB)),
        (AdviceBounds(most_cut_percent=99, least_bytes=9 * GIB), BoundedShare(150, 9 * GIB)),
        (AdviceBounds(mode=AdviceMode.OFF), None),
    ],
)
def test_bounds_limit_a_cut(bounds: AdviceBounds, given_share: BoundedShare | None) -> None:
    assert limit_advice(bounds, RequestedShare(1000, 80 * GIB), SHRINK) == given_share


def test_a_whole_card_stays_whole_where_its_compute_is_needed() -> None:
    asked = RequestedShare(1000, 80 * GIB)
    advice = Advice(AdviceKind.SHRINK, 1000, 2 * GIB, Confidence.HIGH)

    assert limit_advice(AdviceBounds(), asked, advice) is None


def test_less_trusted_advice_is_left() -> None:
    asked = RequestedShare(500, 16 * GIB)
    advice = Advice(AdviceKind.SHRINK, 150, 2 * GIB, Confidence.MEDIUM)

    assert limit_advice(AdviceBounds(confidence=Confidence.HIGH), asked, advice) is None
    assert limit_advice(AdviceBounds(confidence=Confidence.MEDIUM), asked, advice) is not None


def test_targets_without_a_common_one_switch_off() -> None:
    new = AdviceBounds(AdviceMode.APPLY, AdviceTarget.NEW)
    running = AdviceBounds(AdviceMode.APPLY, AdviceTarget.RUNNING)

    assert tighten_bounds([new, running]).mode is AdviceMode.OFF


def test_looser_bounds_are_named() -> None:
    base = AdviceBounds(AdviceMode.PROPOSE, AdviceTarget.NEW, 200, 30, 4 * GIB, Confidence.HIGH)
    more = AdviceBounds(AdviceMode.APPLY, AdviceTarget.BOTH, 50, 50, GIB, Confidence.LOW)

    assert list_loosened(base, base) == []
    assert list_loosened(more, base) == [
        "mode apply beside propose",
        "both jobs beside new",
        "a share of 0.05 beside 0.2",
        "a cut of 50 % beside 30 %",
        "1024 MiB beside 4096 MiB",
        "confidence low beside high",
    ]


def test_memory_is_too_small_only_where_it_was_cut() -> None:
    assert is_memory_too_small(99 * MIB, 100 * MIB, 200 * MIB)
    assert not is_memory_too_small(90 * MIB, 100 * MIB, 200 * MIB)
    assert not is_memory_too_small(100 * MIB, 100 * MIB, 100 * MIB)
    assert not is_memory_too_small(None, 100 * MIB, 200 * MIB)
