"""Advice covers what was measured, follows use, and says nothing about what is unknown."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, MIB
from gpupool.rightsizing.advice import (
    USUAL_RULES,
    AdviceKind,
    Confidence,
    FamilyUse,
    advise,
)
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare, is_at_limit

HOUR_S = 3600
USES = st.lists(st.integers(0, 1000), min_size=5, max_size=12)


def build_run(
    number: int,
    milli: int,
    *,
    share: RequestedShare,
    peak: int | None = GIB,
    limited: float = 0.0,
    end_s: int | None = None,
) -> MeasuredRun:
    use = UseHistogram()
    use.add(milli, HOUR_S)
    end = (number + 1) * HOUR_S if end_s is None else end_s
    return MeasuredRun(
        f"j{number}", end - HOUR_S, end, share, use, limited * HOUR_S, share.gpu_milli, peak
    )


def build_family(
    uses: list[int], asked: int = 1000, memory: int = 16 * GIB, limited: float = 0.0
) -> FamilyUse:
    family = FamilyUse()
    share = RequestedShare(asked, memory)
    for number, milli in enumerate(uses):
        family.add_run(build_run(number, milli, share=share, limited=limited))
    return family


@settings(max_examples=40)
@given(USES, st.integers(50, 1000))
def test_advice_covers_the_percentile_of_its_own_data(uses: list[int], asked: int) -> None:
    family = build_family(uses, asked)
    percentile = family.use.find_percentile(USUAL_RULES.percent)

    found = advise(family)

    assert found.gpu_milli is not None
    assert percentile is not None
    assert percentile <= found.gpu_milli <= 1000


@settings(max_examples=40)
@given(USES, st.integers(1, 1000), st.integers(0, 300))
def test_more_use_never_gives_a_smaller_advice(uses: list[int], asked: int, more: int) -> None:
    less = advise(build_family(uses, asked)).gpu_milli
    greater = advise(build_family([min(1000, one + more) for one in uses], asked)).gpu_milli

    assert less is not None
    assert greater is not None
    assert less <= greater


@settings(max_examples=40)
@given(st.lists(st.integers(1, 64 * GIB), min_size=5, max_size=9), st.integers(1, 64))
def test_advised_memory_holds_the_highest_of_all_runs(peaks: list[int], asked_gib: int) -> None:
    family = FamilyUse()
    share = RequestedShare(500, asked_gib * GIB)
    for number, peak in enumerate(peaks):
        family.add_run(build_run(number, 100, share=share, peak=peak))

    found = advise(family).memory_bytes

    assert found is not None
    assert found >= max(peaks)


def test_a_family_that_uses_a_third_is_advised_its_use_and_head_room() -> None:
    found = advise(build_family([300] * 5))

    assert found.kind is AdviceKind.SHRINK
    # 300 x 1.15 = 345, up to the next step of 50.
    assert found.gpu_milli == 350
    # 1 GiB and 10 % are 1127 MiB, up to the next step of 256 MiB.
    assert found.memory_bytes == 1280 * MIB


def test_four_measured_runs_are_too_few() -> None:
    found = advise(build_family([300] * 4))

    assert (found.kind, found.gpu_milli, found.memory_bytes) == (AdviceKind.UNKNOWN, None, None)
    assert found.reason == "measured runs: 4, at least 5 are needed"


def test_runs_without_a_measurement_give_no_advice() -> None:
    family = FamilyUse()
    share = RequestedShare(500, GIB)
    for number in range(50):
        family.add_run(MeasuredRun(f"j{number}", 0, number, share))

    assert advise(family).kind is AdviceKind.UNKNOWN
    assert family.runs == 50
    assert family.limited_part is None


def test_unknown_memory_is_not_advised_beside_known_compute() -> None:
    family = FamilyUse()
    for number in range(5):
        family.add_run(build_run(number, 100, share=RequestedShare(500, GIB), peak=None))

    found = advise(family)

    assert (found.gpu_milli, found.memory_bytes) == (150, None)


def test_a_family_at_its_limit_is_told_to_ask_for_half_more() -> None:
    family = build_family([300] * 6, asked=300, limited=0.3)

    found = advise(family)

    assert found.kind is AdviceKind.GROW
    assert found.gpu_milli == 450
    assert family.limited_part == 0.3


def test_a_share_that_has_grown_is_judged_by_its_own_runs() -> None:
    family = build_family([300] * 6, asked=300, limited=0.3)
    family.add_run(build_run(6, 350, share=RequestedShare(450, 16 * GIB)))

    assert advise(family).gpu_milli == 450

    family.add_run(build_run(7, 450, share=RequestedShare(450, 16 * GIB), limited=0.3))

    assert advise(family).gpu_milli == 700


def test_a_full_share_without_waiting_is_kept() -> None:
    found = advise(build_family([290] * 6, asked=300, memory=GIB))

    assert (found.kind, found.gpu_milli, found.memory_bytes) == (AdviceKind.KEEP, 300, GIB)


def test_a_share_without_a_promise_gets_no_compute_advised() -> None:
    found = advise(build_family([300] * 6, asked=0))

    assert found.gpu_milli is None
    assert found.memory_bytes == 1280 * MIB


def test_old_runs_count_half_after_each_half_life() -> None:
    family = FamilyUse()
    share = RequestedShare(1000, 16 * GIB)
    for number in range(10):
        family.add_run(build_run(number, 800, share=share, end_s=number))
    # 20 runs at 100 m eight half-lives later weigh 256 times as much each as the old ones.
    late = 8 * USUAL_RULES.half_life_s
    for number in range(10, 30):
        family.add_run(build_run(number, 100, share=share, end_s=late))

    assert advise(family).gpu_milli == 150


def test_confidence_grows_with_runs_and_falls_with_runs_beyond_the_advice() -> None:
    assert advise(build_family([300] * 5)).confidence is Confidence.LOW
    assert advise(build_family([300] * 10)).confidence is Confidence.MEDIUM
    assert advise(build_family([300] * 20)).confidence is Confidence.HIGH
    # Three short runs of 25 used far more: no twentieth of the time, and yet an eighth of the runs.
    family = build_family([300] * 22)
    for number in range(22, 25):
        short = UseHistogram()
        short.add(900, 60)
        share = RequestedShare(1000, 16 * GIB)
        family.add_run(MeasuredRun(f"j{number}", 0, number * HOUR_S, share, short, 0.0, 0, GIB))
    found = advise(family)
    assert (found.gpu_milli, found.confidence) == (350, Confidence.MEDIUM)


def test_rules_decide_the_head_room() -> None:
    family = build_family([300] * 5)
    family.rules = replace(USUAL_RULES, compute_headroom=200)

    assert advise(family).gpu_milli == 600


def test_limits_are_of_shares_and_not_of_whole_cards() -> None:
    assert is_at_limit(290, 300, None)
    assert is_at_limit(210, 300, 0.1)
    assert not is_at_limit(280, 300, 0.05)
    assert not is_at_limit(100, 300, 0.9)
    assert not is_at_limit(1000, 1000, 0.9)
    assert not is_at_limit(500, 0, 0.9)
