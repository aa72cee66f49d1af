from gpupool.scheduling.scoring import (
    gpu_packing,
)
from tests.support.score_builders import BARE, PAIR, SHARE, scores


def test_packing_prefers_used_cards_then_free_cards_of_used_nodes_then_free_nodes() -> None:
    assert scores(gpu_packing, SHARE) == [100 - 40 // 10, 100 - 75 // 10, 33 - 4]
    assert scores(gpu_packing, PAIR) == [50 - 2, 50 - 2, 33 - 4]
    assert scores(gpu_packing, BARE) == [0, 0, 0]
