import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.policy import StatelessRater, find_fitting_rows
from gpupool.scheduling.scoring.ranking import NodeRanking, NodeRankings
from gpupool.scheduling.scoring.registry import DEFAULT_POLICY, find_policy
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Ints
from tests.support.scheduling_builders import cards, shape


class Emptiest(StatelessRater):
    """A rule as small as can be, which counts what it is asked."""

    NODE_WORD = "emptiest"
    CARD_WORD = "first"

    def __init__(self, free: FreeCapacity, *, scaled: bool = False) -> None:
        self.free, self.NEEDS_NORMALIZATION, self.epoch, self.rated = (
            free,
            scaled,
            0,
            list[list[int]](),
        )

    def rate_nodes(self, fit: ClaimFit, nodes: Ints) -> Ints:
        self.rated.append(sorted(nodes.tolist()))
        total: Ints = self.free.get_compute_grid(nodes).sum(axis=1)
        return total // 500

    def normalize_scores(self, scores: Ints) -> Ints:
        return -scores

    def order_cards(self, fit: ClaimFit, node: int) -> Ints:
        return find_fitting_rows(self.free, fit, node)


def test_ties_go_to_the_lowest_rank_and_only_changed_nodes_are_rated_again() -> None:
    free = FreeCapacity(cards("4x1xT4"), order=np.array([2, 1, 3, 0]))
    rater = Emptiest(free)
    ranking = NodeRanking(shape(300, GIB), free, rater)
    assert ranking.find_best() == 2
    free.take_seats(2, free.get_node_rows(2), 600, np.array([GIB]))
    assert ranking.find_best() == 1
    free.take_seats(1, free.get_node_rows(1), 800, np.array([GIB]))
    assert ranking.find_best() == 3
    assert rater.rated == [[0, 1, 2, 3], [2]]  # node 1 is not even feasible any more
    free.release_seats(1, free.get_node_rows(1), 800, np.array([GIB]))
    assert ranking.find_best() == 1
    assert rater.rated[2:] == [[1]]


def test_a_new_epoch_forgets_every_score() -> None:
    free = FreeCapacity(cards("3x1xT4"))
    rater = Emptiest(free)
    ranking = NodeRanking(shape(), free, rater)
    ranking.find_best()
    ranking.find_best()
    rater.epoch = 1
    ranking.find_best()
    assert rater.rated == [[0, 1, 2]] * 2


def test_the_best_among_some_nodes_is_one_of_them_or_none() -> None:
    free = FreeCapacity(cards("3x1xT4", used={"node-2/0": (900, 0)}), order=np.arange(3))
    ranking = NodeRanking(shape(), free, Emptiest(free))
    assert ranking.find_best(np.array([False, True, True])) == 2
    assert ranking.find_best(np.array([False, True, False])) is None
    assert NodeRanking(Shape(500, 99 * GIB), free, Emptiest(free)).find_best() is None


def test_a_rule_that_scales_sees_the_feasible_nodes_beside_each_other() -> None:
    free = FreeCapacity(
        cards("3x1xT4", used={"node-2/0": (500, 0), "node-3/0": (900, 0)}), order=np.arange(3)
    )
    assert NodeRanking(shape(), free, Emptiest(free, scaled=True)).find_best() == 1


def test_a_pool_without_nodes_has_no_best_one() -> None:
    free = FreeCapacity(cards(""))
    assert NodeRanking(shape(), free, Emptiest(free)).find_best() is None


def test_only_the_shapes_used_last_are_kept() -> None:
    free = FreeCapacity(cards("1x1xT4"))
    rankings = NodeRankings(free, Emptiest(free), kept=2)
    first = rankings.get_ranking(shape(100))
    assert rankings.get_ranking(shape(100)) is first
    rankings.get_ranking(shape(200))
    rankings.get_ranking(shape(300))
    assert rankings.get_ranking(shape(100)) is not first


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", range(4))
def test_a_policy_begun_anew_rates_by_what_it_expects_then(seed: int) -> None:
    chance = np.random.default_rng(seed)
    free = FreeCapacity(cards("8x8xT4+20x2xT4", hosts=(64_000, 1)))
    small, large = Shape(300, 0, cpu_milli=1000), Shape(1000, 0, 8, cpu_milli=16_000)
    lists = (
        ExpectedDemand((small, large), (9.0, 1.0), 0),
        ExpectedDemand((large, Shape(1000, 0)), (5.0, 1.0), 0),
    )
    raters = [find_policy(DEFAULT_POLICY).start_rater(free, expected, 0) for expected in lists]
    ranking = NodeRanking(small, free, raters[0])
    found = []
    for turn in range(24):
        node = int(chance.integers(len(free.cards.nodes)))
        row = free.get_node_rows(node)[:1]
        free.take_seats(node, row, 100, np.zeros(1, dtype=np.int64), 500)
        rater = raters[turn % 2]
        ranking.set_rater(rater)
        found.append((ranking.find_best(), NodeRanking(small, free, rater).find_best()))
    assert [one for one, _ in found] == [other for _, other in found]
    assert len({one for one, _ in found}) > 1
