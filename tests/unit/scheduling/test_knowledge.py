from collections.abc import Sequence
from itertools import pairwise

import pytest

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape, Sharing
from gpupool.scheduling.knowledge import (
    ENDING,
    FILLING,
    FIRST,
    HALF_LIFE,
    LEAST,
    MOST,
    MOST_JOBS,
    REMEMBERED,
    Knowledge,
)
from gpupool.scheduling.snapshot import Expected

HALF, EIGHTH, CARD = Shape(500), Shape(125), Shape(WHOLE)
POOL = 10 * WHOLE


def after(claims: Sequence[Shape], capacity: int = POOL) -> Knowledge:
    known = Knowledge(capacity)
    for shape in claims:
        known.claim_came(shape)
    return known


def weights(known: Knowledge) -> dict[Shape, float]:
    return dict(zip(known.expected.shapes, known.expected.counts, strict=True))


def test_nothing_is_expected_before_eight_claims_came() -> None:
    known = after([HALF] * (FIRST - 1))
    known.hand_out()
    assert known.expected.shapes == ()
    known.claim_came(HALF)
    assert known.expected.shapes == (HALF,)


def test_what_is_expected_is_handed_out_less_often_the_more_is_known() -> None:
    known = Knowledge(POOL)
    handed_out, last = list[int](), known.expected
    for number in range(1, 3000):
        known.claim_came(HALF)
        if known.expected is not last:
            handed_out.append(number)
            last = known.expected
    apart = [b - a for a, b in pairwise(handed_out)]
    assert handed_out[0] == FIRST
    assert apart[0] == LEAST
    assert apart[-1] == MOST
    assert apart == sorted(apart)


def test_it_is_worked_out_once_for_many_claims_that_came_before_it_was_asked_for() -> None:
    claims = [Shape(100 + number % 800) for number in range(2000)]
    late, anew = after(claims), after(claims)
    anew.hand_out()
    assert late.expected == anew.expected
    assert late.expected is late.expected
    known, handed_out = Knowledge(POOL), list[Expected]()
    for shape in claims:
        known.claim_came(shape)
        if not handed_out or known.expected is not handed_out[-1]:
            handed_out.append(known.expected)
    assert len(handed_out) > 10


def test_a_claim_weighs_half_after_a_half_life_of_later_ones_and_is_forgotten_in_the_end() -> None:
    known = after([HALF] * FIRST + [EIGHTH] * HALF_LIFE)
    known.hand_out()
    assert weights(known)[HALF] == pytest.approx(FIRST / 2, rel=0.01)
    for _ in range(REMEMBERED):
        known.claim_came(EIGHTH)
    known.hand_out()
    assert known.expected.shapes == (EIGHTH,)


def test_forgotten_shapes_leave_what_is_known_of_the_others() -> None:
    """What a long life leaves is what its last claims alone would have taught."""
    claims = [Shape(1 + number % WHOLE, 0, 1 + number // WHOLE) for number in range(3 * REMEMBERED)]
    long, short = after([]), after(claims[-REMEMBERED:])
    for number, shape in enumerate(claims):
        long.claim_came(shape)
        if number % 1000 == 0:
            assert len(long.expected.shapes) <= REMEMBERED
    for known in (long, short):
        known.hand_out()
    assert long.expected == short.expected
    assert len(long.expected.shapes) == REMEMBERED


def test_one_array_says_no_more_than_256_claims_do() -> None:
    known = after([EIGHTH] * (FIRST - 1))
    known.claim_came(HALF, 100_000)
    assert weights(known)[HALF] == MOST_JOBS


def test_a_pool_that_only_fills_is_told_so_and_one_whose_claims_end_too() -> None:
    known = after([CARD] * FIRST)
    for _ in range(10):
        known.claim_started(CARD)
    assert known.expected.returned_pct == FILLING
    seen = list[int]()
    for _ in range(10):
        known.claim_gave_back(CARD)
        known.claim_started(CARD)
        seen.append(known.expected.returned_pct)
    assert seen == sorted(seen)
    assert seen[-1] == ENDING


def test_a_pool_between_both_stays_what_it_was() -> None:
    """Half of what is given out comes back."""
    fills = after([CARD] * FIRST, 10 * POOL)
    ends = after([CARD] * FIRST, 10 * POOL)
    for _ in range(100):
        ends.claim_started(CARD)
        ends.claim_gave_back(CARD)
    for known in (fills, ends):
        for _ in range(200):
            known.claim_started(CARD)
            known.claim_started(CARD)
            known.claim_gave_back(CARD)
        assert known.returned_pct == pytest.approx(50, abs=2)
    assert (fills.expected.returned_pct, ends.expected.returned_pct) == (FILLING, ENDING)


def test_what_comes_back_of_a_fuller_pool_counts_by_its_compute() -> None:
    known = after([CARD] * FIRST)
    known.claim_started(Shape(WHOLE, count=8))
    for _ in range(20):
        known.claim_started(Shape(10))
        known.claim_gave_back(Shape(10))
    assert known.expected.returned_pct == FILLING
    known.claim_gave_back(Shape(WHOLE, count=8))
    assert known.expected.returned_pct == ENDING


def test_claims_that_hold_no_compute_say_nothing_of_what_comes_back() -> None:
    known = after([CARD] * FIRST)
    known.claim_started(CARD)
    before = known.returned_pct
    for bare in (Shape(0, 0, 0, cpu_milli=8000), Shape(500, 0, sharing=Sharing.BEST_EFFORT)):
        known.claim_started(bare)
        known.claim_gave_back(bare)
    assert known.returned_pct == before


def test_the_same_events_teach_the_same() -> None:
    claims = [Shape(100 * (1 + number % 9)) for number in range(300)]
    one, other = after(claims), after(claims)
    assert one.expected == other.expected


def test_a_pool_without_cards_learns_all_the_same() -> None:
    known = after([HALF] * FIRST, capacity=0)
    known.claim_started(HALF)
    known.claim_gave_back(HALF)
    assert known.expected.shapes == (HALF,)
