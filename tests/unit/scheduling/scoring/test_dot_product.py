from gpupool.scheduling.scoring import (
    dot_product,
)
from tests.support.score_builders import BARE, PAIR, scores


def test_the_dot_product_is_small_where_free_and_asked_have_little_in_common() -> None:
    def by_hand(cpu: float, compute: float) -> int:
        return int(100 * (1 - (cpu / 128 * 8 / 128 + compute / 8 * 2 / 8) / 2))

    assert scores(dot_product, PAIR) == [by_hand(64, 3.4), by_hand(32, 2.75), by_hand(64, 4)]
    assert scores(dot_product, BARE) == [98, 99, 98]
