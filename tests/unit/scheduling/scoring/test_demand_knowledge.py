from collections.abc import Sequence
from itertools import pairwise

import pytest

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.scoring.demand_knowledge import (
    ENDING,
    FILLING,
    FIRST_CLAIMS,
    HALF_LIFE,
    LEAST,
    MOST,
    MOST_JOBS,
    REMEMBERED_CLAIMS,
    DemandKnowledge,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand

HALF, EIGHTH, CARD = Shape(500), Shape(125), Shape(WHOLE)
POOL = 10 * WHOLE


def after(claims: Sequence[Shape], capacity: int = POOL) -> DemandKnowledge:
    known = DemandKnowledge(capacity)
    for shape in claims:
        known.record_arrival(shape)
    return known


def weights(known: DemandKnowledge) -> dict[Shape, float]:
    return dict(zip(known.expected_demand.shapes, known.expected_demand.counts, strict=True))


def test_nothing_is_expected_before_eight_claims_came() -> None:
    known = after([HALF] * (FIRST_CLAIMS - 1))
    known.request_update()
    assert known.expected_demand.shapes == ()
    known.record_arrival(HALF)
    assert known.expected_demand.shapes == (HALF,)


def test_what_is_expected_is_handed_out_less_often_the_more_is_known() -> None:
    known = DemandKnowledge(POOL)
    handed_out, last = list[int](), known.expected_demand
    for number in range(1, 3000):
        known.record_arrival(HALF)
        if known.expected_demand is not last:
            handed_out.append(number)
            last = known.expected_demand
    apart = [b - a for a, b in pairwise(handed_out)]
    assert handed_out[0] == FIRST_CLAIMS
    assert apart[0] == LEAST
    assert apart[-1] == MOST
    assert apart == sorted(apart)


def test_it_is_worked_out_once_for_many_claims_that_came_before_it_was_asked_for() -> None:
    claims = [Shape(100 + number % 800) for number in range(2000)]
    late, anew = after(claims), after(claims)
    anew.request_update()
    assert late.expected_demand == anew.expected_demand
    assert late.expected_demand is late.expected_demand
    known, handed_out = DemandKnowledge(POOL), list[ExpectedDemand]()
    for shape in claims:
        known.record_arrival(shape)
        if not handed_out or known.expected_demand is not handed_out[-1]:
            handed_out.append(known.expected_demand)
    assert len(handed_out) > 10


def test_a_claim_weighs_half_after_a_half_life_of_later_ones_and_is_forgotten_in_the_end() -> None:
    known = after([HALF] * FIRST_CLAIMS + [EIGHTH] * HALF_LIFE)
    known.request_update()
    assert weights(known)[HALF] == pytest.approx(FIRST_CLAIMS / 2, rel=0.01)
    for _ in range(REMEMBERED_CLAIMS):
        known.record_arrival(EIGHTH)
    known.request_update()
    assert known.expected_demand.shapes == (EIGHTH,)


def test_forgotten_shapes_leave_what_is_known_of_the_others() -> None:
    """What a long life leaves is what its last claims alone would have taught."""
    claims = [
        Shape(1 + number % WHOLE, 0, 1 + number // WHOLE) for number in range(3 * REMEMBERED_CLAIMS)
    ]
    long, short = after([]), after(claims[-REMEMBERED_CLAIMS:])
    for number, shape in enumerate(claims):
        long.record_arrival(shape)
        if number % 1000 == 0:
            assert len(long.expected_demand.shapes) <= REMEMBERED_CLAIMS
    for known in (long, short):
        known.request_update()
    assert long.expected_demand == short.expected_demand
    assert len(long.expected_demand.shapes) == REMEMBERED_CLAIMS


def test_one_array_says_no_more_than_256_claims_do() -> None:
    known = after([EIGHTH] * (FIRST_CLAIMS - 1))
    known.record_arrival(HALF, 100_000)
    assert weights(known)[HALF] == MOST_JOBS


def test_a_pool_that_only_fills_is_told_so_and_one_whose_claims_end_too() -> None:
    known = after([CARD] * FIRST_CLAIMS)
    for _ in range(10):
        known.record_start(CARD)
    assert known.expected_demand.returned_pct == FILLING
    seen = list[int]()
    for _ in range(10):
        known.record_release(CARD)
        known.record_start(CARD)
        seen.append(known.expected_demand.returned_pct)
    assert seen == sorted(seen)
    assert seen[-1] == ENDING


def test_a_pool_between_both_stays_what_it_was() -> None:
    """Half of what is given out comes back."""
    fills = after([CARD] * FIRST_CLAIMS, 10 * POOL)
    ends = after([CARD] * FIRST_CLAIMS, 10 * POOL)
    for _ in range(100):
        ends.record_start(CARD)
        ends.record_release(CARD)
    for known in (fills, ends):
        for _ in range(200):
            known.record_start(CARD)
            known.record_start(CARD)
            known.record_release(CARD)
        assert known.returned_pct == pytest.approx(50, abs=2)
    assert (fills.expected_demand.returned_pct, ends.expected_demand.returned_pct) == (
        FILLING,
        ENDING,
    )


def test_what_comes_back_of_a_fuller_pool_counts_by_its_compute() -> None:
    known = after([CARD] * FIRST_CLAIMS)
    known.record_start(Shape(WHOLE, count=8))
    for _ in range(20):
        known.record_start(Shape(10))
        known.record_release(Shape(10))
    assert known.expected_demand.returned_pct == FILLING
    known.record_release(Shape(WHOLE, count=8))
    assert known.expected_demand.returned_pct == ENDING


def test_claims_that_hold_no_compute_say_nothing_of_what_comes_back() -> None:
    known = after([CARD] * FIRST_CLAIMS)
    known.record_start(CARD)
    before = known.returned_pct
    for bare in (Shape(0, 0, 0, cpu_milli=8000), Shape(500, 0, sharing=SharingKind.BEST_EFFORT)):
        known.record_start(bare)
        known.record_release(bare)
    assert known.returned_pct == before


def test_the_same_events_teach_the_same() -> None:
    claims = [Shape(100 * (1 + number % 9)) for number in range(300)]
    one, other = after(claims), after(claims)
    assert one.expected_demand == other.expected_demand


def test_a_pool_without_cards_learns_all_the_same() -> None:
    known = after([HALF] * FIRST_CLAIMS, capacity=0)
    known.record_start(HALF)
    known.record_release(HALF)
    assert known.expected_demand.shapes == (HALF,)
