import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.scoring import (
    gpu_clustering,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.score_builders import BARE, PAIR, SHARE, free_pool


def test_clustering_keeps_claims_of_one_kind_together() -> None:
    free = free_pool()
    rater = gpu_clustering.start_rater(free, ExpectedDemand(), 42)
    used = [int(25 * (8 - left) / 8) for left in (3.4, 2.75, 4)]
    assert rater.rate_nodes(ClaimFit(SHARE, free), np.arange(3)).tolist() == [
        25 + used[0],
        25 + used[1],
        25 + used[2],
    ]
    rater.on_take(Shape(100, 0), 0)
    rater.on_take(PAIR, 1)
    rater.on_take(Shape(100, 0), 2)
    rater.on_take(PAIR, 2)
    rater.on_take(BARE, 0)
    assert rater.rate_nodes(ClaimFit(SHARE, free), np.arange(3)).tolist() == [
        75 + used[0],
        used[1],
        50 + used[2],
    ]
    rater.on_release(PAIR, 2)
    assert rater.rate_nodes(ClaimFit(SHARE, free), np.arange(3)).tolist() == [
        75 + used[0],
        used[1],
        75 + used[2],
    ]
    assert rater.rate_nodes(ClaimFit(BARE, free), np.arange(3)).tolist() == [0, 0, 0]
