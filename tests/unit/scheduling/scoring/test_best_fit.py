from gpupool.base.units import GIB
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring import (
    best_fit,
)
from tests.support.scheduling_builders import cards
from tests.support.score_builders import PAIR, scores


def test_best_fit_scales_what_is_left_over_the_feasible_nodes() -> None:
    def by_hand(cpu: float, compute: float) -> int:
        return int(100 * (1 - (cpu / 128 + compute / 8) / 2))

    left = [by_hand(56, 1.4), by_hand(24, 0.75), by_hand(56, 2)]
    assert left == [69, 85, 65]
    assert scores(best_fit, PAIR) == [(69 - 65) * 100 // 20, 100, 0]
    free = FreeCapacity(cards("3x4xT4", hosts=(64_000, GIB)))
    assert len(set(scores(best_fit, PAIR, free))) == 1
