from gpupool.scheduling.scoring import (
    random_node,
)
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.score_builders import SHARE, free_pool


def test_chance_takes_every_node_and_every_card_and_the_same_ones_again_for_the_same_seed() -> None:
    def draws(seed: int) -> list[tuple[int | None, int]]:
        free = free_pool()
        ranking = NodeRanking(SHARE, free, random_node.start_rater(free, ExpectedDemand(), seed))
        return [(ranking.find_best(), int(ranking.order_cards(0)[0])) for _ in range(60)]

    assert draws(1) == draws(1) != draws(2)
    assert {node for node, _ in draws(1)} == {0, 1, 2}
    assert {row for _, row in draws(1)} == {0, 1, 2, 3}
