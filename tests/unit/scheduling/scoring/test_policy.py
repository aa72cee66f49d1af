from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.scoring import (
    best_fit,
    dot_product,
    gpu_clustering,
    gpu_packing,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.score_builders import PAIR, SHARE, free_pool


def test_cards_are_the_tightest_for_shares_and_the_first_for_whole_ones() -> None:
    free = free_pool()
    for policy in (dot_product, best_fit, gpu_packing, gpu_clustering):
        rater = policy.start_rater(free, ExpectedDemand(), 42)
        assert rater.order_cards(ClaimFit(SHARE, free), 1).tolist() == [5, 6, 7]
        assert rater.order_cards(ClaimFit(PAIR, free), 0).tolist() == [1, 2, 3]
