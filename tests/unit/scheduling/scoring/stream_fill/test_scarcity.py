import math
from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes
from gpupool.scheduling.scoring.stream_fill.scarcity import (
    NEAR_SLOT,
    ScarcityPrices,
    compute_shortage_chance,
    round_price,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

FOUR, ONE = Shape(1000, 0, 4, cpu_milli=8000), Shape(1000, 0, cpu_milli=1000)


def prices(free: FreeCapacity, *shapes: Shape, counts: tuple[int, ...]) -> ScarcityPrices:
    classes = build_classes(ExpectedDemand(shapes, counts))
    return ScarcityPrices(free, NodeKinds(free.cards, classes), classes)


def take(free: FreeCapacity, node: int, places: int) -> None:
    rows = free.get_node_rows(node)[:places]
    free.take_seats(node, rows, 1000, np.zeros(places, dtype=np.int64), 1000 * places)


def price_of_four(number: float, mean: float) -> int:
    """Of hosts for four cards: what is at stake times the chance that so many of them are
    wanted."""
    return round_price(round(4000 * 0.5 * math.erfc((number - 0.5 - mean) / math.sqrt(2 * mean))))


def test_hosts_cost_what_they_hold_times_the_chance_that_more_are_wanted() -> None:
    free = FreeCapacity(cards("4x4xT4", hosts=(16_000, GIB)))
    of = prices(free, FOUR, ONE, counts=(1, 12))
    # 16000 are free and 16000 expected: one claim of four and 4 % to spare, and four hosts.
    assert (of.count.tolist(), of.host.tolist(), of.price.tolist()) == (
        [4],
        [8000],
        [price_of_four(4, 1.04)],
    )
    assert of.price[0] < 40
    for node in (0, 1, 2):
        take(free, node, 1)
    of.update_epoch()
    # While 13000 fill 13/16 claims come, and 4 % to spare, and one host is left.
    assert of.price.tolist() == [price_of_four(1, 13 / 16 + 0.04)]
    assert of.price[0] > 2000
    one = np.ones(4, dtype=np.int64)
    assert of.price_lost_slots(np.arange(4), one, 0).tolist() == [0, 0, 0, 1000 * of.price[0]]
    # Processors for none are left.
    assert of.price_lost_slots(np.array([3]), 0 * one[:1], 9000).tolist() == [1000 * of.price[0]]
    for node in (0, 1, 2):
        free.release_seats(
            node, free.get_node_rows(node)[:1], 1000, np.zeros(1, dtype=np.int64), 1000
        )
    of.update_epoch()
    assert of.price.tolist() == [price_of_four(4, 1.04)]


def test_claims_that_few_hosts_can_take_have_a_price_of_their_own_and_count_among_all() -> None:
    pool = cards("3x4xT4", hosts=(8_000, GIB))
    assert pool.hosts is not None
    roomy = np.array([8_000, 8_000, 16_000])
    free = FreeCapacity(
        replace(pool, hosts=replace(pool.hosts, cpu_milli=roomy, free_cpu_milli=roomy))
    )
    large = Shape(1000, 0, 4, cpu_milli=12_000)
    of = prices(free, FOUR, large, Shape(1000, 0, 4, cpu_milli=99_000), ONE, counts=(3, 2, 9, 1))
    by_cpu = dict(zip(of.host.tolist(), of.price.tolist(), strict=True))
    coming = 12 * 1.04 / (4 * (3 + 2 + 9) + 1)
    # Two of five kinds of fours can live on the third node alone; what fits nowhere is not waited
    # for.
    assert by_cpu == {
        8_000: price_of_four(3, 5 * coming),
        12_000: price_of_four(1, 2 * coming),
    }


def test_where_claims_end_hosts_are_kept_for_those_too_who_come_while_others_go() -> None:
    free = FreeCapacity(cards("4x4xT4", hosts=(16_000, GIB)))
    classes = build_classes(ExpectedDemand((FOUR, ONE), (1, 12)))
    of = ScarcityPrices(free, NodeKinds(free.cards, classes), classes, ending=True)
    assert of.price.tolist() == [price_of_four(4, 1.25)]  # 16000 are free and a quarter comes back


@pytest.mark.parametrize(("ending", "thousandths"), [(False, 0), (True, 300)])
def test_where_claims_end_a_host_that_lacks_few_cards_is_part_of_a_slot(
    ending: bool, thousandths: int
) -> None:
    free = FreeCapacity(cards("4x4xT4", hosts=(16_000, GIB)))
    for node, used in enumerate((0, 1, 2)):
        take(free, node, used)
    two = Shape(1000, 0, 2, cpu_milli=1000)
    classes = build_classes(ExpectedDemand((FOUR, two), (4, 4)))
    of = ScarcityPrices(free, NodeKinds(free.cards, classes), classes, ending=ending)
    of.price[:] = [1000 if count == 4 else 0 for count in of.count]
    # A free card of the first three hosts, which lack 0, 1 and 2 cards for a claim to four.
    lost = of.price_lost_slots(np.arange(3), np.ones(3, dtype=np.int64), 0)
    further = thousandths * NEAR_SLOT // 1000
    last = further * NEAR_SLOT // 1000
    expected = [1000 - thousandths, thousandths - further, further - last]
    assert lost.tolist() == [1000 * one for one in expected]
    # Processors are short: what lacks cards as well is no part of a slot.
    host = of.price_lost_slots(np.array([1]), np.zeros(1, dtype=np.int64), 9000)
    assert host.tolist() == [1000 * thousandths]
    # Claims of fewer cards have whole slots alone.
    of.price[:] = [1000 if count == 2 else 0 for count in of.count]
    assert of.price_lost_slots(np.arange(3), np.ones(3, dtype=np.int64), 0).tolist() == [
        10**6,
        0,
        10**6,
    ]


def test_prices_stay_while_little_has_changed_hands() -> None:
    free = FreeCapacity(cards("50x4xT4"))
    of = prices(free, FOUR, counts=(1,))
    first = of.price.tolist()
    take(free, 0, 3)
    assert of.update_epoch() == 1  # 3000 of 200 000
    assert of.price.tolist() == first
    take(free, 1, 1)
    assert of.update_epoch() == 2
    assert of.price[0] > first[0]
    for node, places in ((0, 3), (1, 1)):
        free.release_seats(
            node,
            free.get_node_rows(node)[:places],
            1000,
            np.zeros(places, dtype=np.int64),
            1000 * places,
        )
    assert of.update_epoch() == 3  # given back is changed hands as well
    assert of.price.tolist() == first


def test_a_plan_that_starts_finds_prices_of_what_is_free_and_not_of_what_was() -> None:
    free = FreeCapacity(cards("50x4xT4", hosts=(16_000, GIB)))
    lived = prices(free, FOUR, ONE, counts=(1, 2))
    for node in range(30):
        take(free, node, 1 + node % 3)
        lived.update_epoch()
    take(free, 40, 1)  # too little to be looked at
    lived.update_epoch()
    anew = prices(free, FOUR, ONE, counts=(1, 2))
    assert lived.price.tolist() != anew.price.tolist()
    lived.begin_plan()
    epoch = lived.epoch
    assert (lived.price.tolist(), lived.toll.tolist()) == (anew.price.tolist(), anew.toll.tolist())
    lived.begin_plan()
    assert lived.epoch == epoch  # and scores of the same prices stay


def test_a_rare_model_costs_the_chance_that_those_who_can_use_no_other_want_all_of_it() -> None:
    free = FreeCapacity(cards("3x1xT4+1x1xH200"))
    typed = Shape(500, 0, model="H200")
    # Of 4000 that come 1000 are for the H200, two claims of 500 in the mean: the chance of 1000 or
    # more is a half.
    assert prices(free, typed, Shape(500, 0), counts=(1, 3)).toll.tolist() == [0, round_price(500)]
    less = compute_shortage_chance(500, 500 * 500, 1000)
    assert prices(free, typed, Shape(500, 0), counts=(1, 7)).toll.tolist() == [
        0,
        round_price(round(1000 * less)),
    ]
    assert prices(free, typed, Shape(500, 0), counts=(7, 1)).toll[1] > 950
    assert prices(
        free, Shape(500, 0, model="T4|H200"), Shape(500, 0), counts=(1, 1)
    ).toll.tolist() == [0, 0]


def test_nothing_expected_of_a_kind_is_nothing_to_pay_for() -> None:
    assert compute_shortage_chance(0.0, 0.0, 0.0) == 0
    assert compute_shortage_chance(4.0, 4.0, 4.0) == pytest.approx(0.5)
    of = prices(FreeCapacity(cards("2x1xT4")), ONE, counts=(1,))
    assert (of.price.tolist(), of.toll.tolist()) == ([], [0])
