"""The paper's baselines, each formula by numbers."""

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling import (
    score_best_fit,
    score_dot_product,
    score_gpu_clustering,
    score_gpu_packing,
    score_random,
)
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import PlacementPolicy
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.snapshot import Expected
from tests.support.scheduling_builders import cards

PAIR, BARE = Shape(1000, 0, 2, cpu_milli=8000), Shape(0, 0, 0, cpu_milli=8000)
SHARE = Shape(300, 0, cpu_milli=8000)
USED = {"node-1/0": (600, 0), "node-2/0": (1000, 0), "node-2/1": (250, 0)}


def free_pool() -> Free:
    """Three nodes of four cards: 3400, 2750 and 4000 of them free; 64, 32 and 64 cores."""
    free = Free(cards("3x4xT4", used=USED, hosts=(64_000, GIB)))
    free.set_hosts(np.array([1]), np.array([32_000]), np.array([GIB]))
    return free


def scores(policy: PlacementPolicy, shape: Shape, free: Free | None = None) -> list[int]:
    free = free or free_pool()
    rater = policy.start(free, Expected(), 42)
    found: list[int] = rater.settle(rater.rate(Fit(shape, free), np.arange(3))).tolist()
    return found


def test_the_dot_product_is_small_where_free_and_asked_have_little_in_common() -> None:
    def by_hand(cpu: float, compute: float) -> int:
        return int(100 * (1 - (cpu / 128 * 8 / 128 + compute / 8 * 2 / 8) / 2))

    assert scores(score_dot_product, PAIR) == [by_hand(64, 3.4), by_hand(32, 2.75), by_hand(64, 4)]
    assert scores(score_dot_product, BARE) == [98, 99, 98]


def test_best_fit_scales_what_is_left_over_the_feasible_nodes() -> None:
    def by_hand(cpu: float, compute: float) -> int:
        return int(100 * (1 - (cpu / 128 + compute / 8) / 2))

    left = [by_hand(56, 1.4), by_hand(24, 0.75), by_hand(56, 2)]
    assert left == [69, 85, 65]
    assert scores(score_best_fit, PAIR) == [(69 - 65) * 100 // 20, 100, 0]
    free = Free(cards("3x4xT4", hosts=(64_000, GIB)))
    assert len(set(scores(score_best_fit, PAIR, free))) == 1


def test_packing_prefers_used_cards_then_free_cards_of_used_nodes_then_free_nodes() -> None:
    assert scores(score_gpu_packing, SHARE) == [100 - 40 // 10, 100 - 75 // 10, 33 - 4]
    assert scores(score_gpu_packing, PAIR) == [50 - 2, 50 - 2, 33 - 4]
    assert scores(score_gpu_packing, BARE) == [0, 0, 0]


def test_clustering_keeps_claims_of_one_kind_together() -> None:
    free = free_pool()
    rater = score_gpu_clustering.start(free, Expected(), 42)
    used = [int(25 * (8 - left) / 8) for left in (3.4, 2.75, 4)]
    assert rater.rate(Fit(SHARE, free), np.arange(3)).tolist() == [25 + used[0], 25 + used[1], 25 + used[2]]
    rater.took(Shape(100, 0), 0)
    rater.took(PAIR, 1)
    rater.took(Shape(100, 0), 2)
    rater.took(PAIR, 2)
    rater.took(BARE, 0)
    assert rater.rate(Fit(SHARE, free), np.arange(3)).tolist() == [75 + used[0], used[1], 50 + used[2]]
    rater.gave(PAIR, 2)
    assert rater.rate(Fit(SHARE, free), np.arange(3)).tolist() == [75 + used[0], used[1], 75 + used[2]]
    assert rater.rate(Fit(BARE, free), np.arange(3)).tolist() == [0, 0, 0]


def test_chance_takes_every_node_and_every_card_and_the_same_ones_again_for_the_same_seed() -> None:
    def draws(seed: int) -> list[tuple[int | None, int]]:
        free = free_pool()
        ranking = Ranking(SHARE, free, score_random.start(free, Expected(), seed))
        return [(ranking.best(), int(ranking.choose(0)[0])) for _ in range(60)]

    assert draws(1) == draws(1) != draws(2)
    assert {node for node, _ in draws(1)} == {0, 1, 2}
    assert {row for _, row in draws(1)} == {0, 1, 2, 3}


def test_cards_are_the_tightest_for_shares_and_the_first_for_whole_ones() -> None:
    free = free_pool()
    for policy in (score_dot_product, score_best_fit, score_gpu_packing, score_gpu_clustering):
        rater = policy.start(free, Expected(), 42)
        assert rater.choose(Fit(SHARE, free), 1).tolist() == [5, 6, 7]
        assert rater.choose(Fit(PAIR, free), 0).tolist() == [1, 2, 3]
