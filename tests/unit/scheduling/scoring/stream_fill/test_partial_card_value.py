import numpy as np
import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes
from gpupool.scheduling.scoring.stream_fill.partial_card_value import (
    MOST_SIZES,
    PartialCardValues,
    hedge_prices,
    is_scattered,
    price_shares,
    solve_knapsack,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

CARD = 1 << 30


def prices(**asked: int) -> dict[int, int]:
    """By size, in thousandths of a card; sizes are written `s500`."""
    sizes = tuple(int(name[1:]) for name in asked)
    found = price_shares(sizes, tuple(asked.values()))
    return {size: round(1000 * price / CARD) for size, price in zip(sizes, found, strict=True)}


def test_shares_that_fill_a_card_together_cost_a_card_together() -> None:
    assert prices(s250=4, s500=2) == {250: 250, 500: 500}
    assert sum(prices(s600=9, s400=9).values()) == 1000


def test_a_share_beside_which_little_is_asked_for_uses_up_the_whole_card() -> None:
    assert prices(s100=3, s810=100) == {100: 0, 810: 1000}
    # With ten times as many small ones than remnants of 0.19 it is they that cost what they are.
    assert prices(s100=1000, s810=100) == {100: 100, 810: 900}


def test_two_thirds_and_thirds_of_odd_sizes_are_found() -> None:
    found = prices(s320=542, s470=1130, s650=385, s810=1598, s160=107)
    assert found == {320: 333, 470: 500, 650: 667, 810: 1000, 160: 0}


@pytest.mark.parametrize("seed", range(20))
def test_no_pattern_costs_more_than_a_card_and_all_shares_at_least_what_they_hold(
    seed: int,
) -> None:
    chance = np.random.default_rng(seed)
    sizes = tuple(sorted(chance.choice(np.arange(20, 1000), size=15, replace=False).tolist()))
    asked = tuple(chance.integers(1, 900, size=15).tolist())
    found = price_shares(sizes, asked)
    assert solve_knapsack(sizes, found)[1000] <= CARD
    cost = sum(price * number for price, number in zip(found, asked, strict=True)) / CARD
    held = sum(size * number for size, number in zip(sizes, asked, strict=True)) / 1000
    assert held * 0.999999 <= cost <= 2 * held + 1


FAMILIES = {
    "step 1": [(size, 1) for size in range(20, 981)],
    "step 5": [(size, 7) for size in range(20, 981, 5)],
    "step 10": [(size, 90) for size in range(20, 981, 10)],
    "178 sizes": [(size, 1 + size % 13) for size in range(90, 980, 5)],
    "two that stand out": [
        (size, 9_000 if size in (470, 810) else 1 + size % 7) for size in range(50, 950, 3)
    ],
    "small alone": [(size, 1000 - size) for size in range(1, 400)],
    "large alone": [(size, 5) for size in range(501, 1000)],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_prices_of_many_sizes_charge_no_card_for_more_than_a_card(family: str) -> None:
    """Before, the simplex ended unfinished with 178 sizes: its dearest pattern on one card cost
    4.29 cards."""
    sizes, asked = zip(*FAMILIES[family], strict=True)
    assert len(sizes) > MOST_SIZES
    found = price_shares(sizes, asked)
    assert solve_knapsack(sizes, found)[1000] <= CARD
    assert sum(price * number for price, number in zip(found, asked, strict=True)) > 0


def test_a_size_that_stands_out_keeps_its_own_price_among_many() -> None:
    odd = {f"s{size}": 1 for size in range(50, 950, 7)}
    found = prices(
        **dict(
            sorted((odd | {"s470": 1130, "s810": 1598}).items(), key=lambda item: int(item[0][1:]))
        )
    )
    assert (found[470], found[810]) == (500, 1000)


def test_sizes_are_scattered_where_four_ask_for_less_than_half_of_the_compute() -> None:
    def scattered(sizes: range, *more: tuple[int, int]) -> bool:
        shapes = [Shape(size, 0) for size in sizes] + [Shape(size, 0) for size, _ in more]
        counts = [1] * len(sizes) + [count for _, count in more]
        return is_scattered(build_classes(ExpectedDemand(tuple(shapes), tuple(counts))))

    assert not scattered(range(100, 1000, 100))
    assert scattered(range(50, 1000, 50))
    assert not scattered(range(50, 1000, 50), (810, 20))
    assert not scattered(range(0))


def most_apart(sizes: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> int:
    for found in (one, other):
        assert solve_knapsack(sizes, found)[1000] <= CARD + len(sizes)
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_hedged_prices_do_not_jump_with_the_mix_and_cost_no_card_more_than_a_card() -> None:
    sizes = tuple(range(100, 1000, 100))
    few = (99, 100, 100, 100, 100, 100, 100, 100, 101)
    plain = [price_shares(sizes, asked) for asked in (few, few[::-1])]
    assert most_apart(sizes, *plain) > CARD // 6
    hedged = [hedge_prices(sizes, asked, known=900.0) for asked in (few, few[::-1])]
    assert most_apart(sizes, *hedged) < CARD // 50
    # A billion claims leave no error: prices are those of the mix.
    assert hedge_prices(sizes, few, known=1e9) == price_shares(sizes, few)


def test_a_knapsack_takes_each_share_as_often_as_fits() -> None:
    best = solve_knapsack((300, 450), (3, 5))
    assert [int(best[room]) for room in (0, 299, 300, 450, 600, 900, 1000)] == [
        0,
        0,
        3,
        5,
        6,
        10,
        10,
    ]


def cuts(*shapes: Shape, pool: str = "1x1xT4+1x1xH200") -> PartialCardValues:
    classes = build_classes(ExpectedDemand(shapes, (1,) * len(shapes)))
    return PartialCardValues(classes, NodeKinds(cards(pool)), 2.0)


def test_a_part_is_worth_the_shares_that_fit_on_it_together() -> None:
    worth = cuts(Shape(500, 0)).worth
    assert [int(worth[0, part]) for part in (0, 499, 500, 999, 1000)] == [0, 0, 1000, 1000, 2000]


def test_only_shares_that_may_run_there_make_a_part_worth_something() -> None:
    worth = cuts(Shape(500, 0, model="H200"), Shape(1000, 0)).worth
    assert worth[:, 500].tolist() == [0, 1000]
    assert worth[:, 1000].tolist() == [2000, 2000]


def test_a_claim_loses_at_least_what_it_loses_where_it_is_cut_best() -> None:
    of = cuts(Shape(500, 0))
    assert of.compute_least_loss(Shape(500, 0)).tolist() == [1000, 1000]
    assert of.compute_least_loss(Shape(500, 0, 2)).tolist() == [2000, 2000]
    assert of.compute_least_loss(Shape(1000, 0, 3)).tolist() == [6000, 6000]
    assert of.compute_least_loss(Shape(400, 0)).tolist() == [
        0,
        0,
    ]  # from what is left beside a half
    assert of.compute_least_loss(Shape(0, 0, 0)).tolist() == [0, 0]


def test_where_no_shares_are_expected_a_part_is_worth_nothing() -> None:
    assert cuts(Shape(1000, 0)).worth[0, [1, 999, 1000]].tolist() == [0, 0, 2000]
