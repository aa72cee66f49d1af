import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.policies import DEFAULT, named
from gpupool.scheduling.policy import Unmoved, fitting_rows
from gpupool.scheduling.ranking import Ranking, Rankings
from gpupool.scheduling.snapshot import Expected, Ints
from tests.support.scheduling_builders import cards, shape


class Emptiest(Unmoved):
    """A rule as small as can be, which counts what it is asked."""

    NODE, CARD = "emptiest", "first"

    def __init__(self, free: Free, *, scaled: bool = False) -> None:
        self.free, self.SCALED, self.epoch, self.rated = free, scaled, 0, list[list[int]]()

    def rate(self, fit: Fit, nodes: Ints) -> Ints:
        self.rated.append(sorted(nodes.tolist()))
        total: Ints = self.free.grid(nodes).sum(axis=1)
        return total // 500

    def settle(self, scores: Ints) -> Ints:
        return -scores

    def choose(self, fit: Fit, node: int) -> Ints:
        return fitting_rows(self.free, fit, node)


def test_ties_go_to_the_lowest_rank_and_only_changed_nodes_are_rated_again() -> None:
    free = Free(cards("4x1xT4"), order=np.array([2, 1, 3, 0]))
    rater = Emptiest(free)
    ranking = Ranking(shape(300, GIB), free, rater)
    assert ranking.best() == 2
    free.take(2, free.of_node(2), 600, np.array([GIB]))
    assert ranking.best() == 1
    free.take(1, free.of_node(1), 800, np.array([GIB]))
    assert ranking.best() == 3
    assert rater.rated == [[0, 1, 2, 3], [2]]  # node 1 is not even feasible any more
    free.give(1, free.of_node(1), 800, np.array([GIB]))
    assert ranking.best() == 1
    assert rater.rated[2:] == [[1]]


def test_a_new_epoch_forgets_every_score() -> None:
    free = Free(cards("3x1xT4"))
    rater = Emptiest(free)
    ranking = Ranking(shape(), free, rater)
    ranking.best()
    ranking.best()
    rater.epoch = 1
    ranking.best()
    assert rater.rated == [[0, 1, 2]] * 2


def test_the_best_among_some_nodes_is_one_of_them_or_none() -> None:
    free = Free(cards("3x1xT4", used={"node-2/0": (900, 0)}), order=np.arange(3))
    ranking = Ranking(shape(), free, Emptiest(free))
    assert ranking.best(np.array([False, True, True])) == 2
    assert ranking.best(np.array([False, True, False])) is None
    assert Ranking(Shape(500, 99 * GIB), free, Emptiest(free)).best() is None


def test_a_rule_that_scales_sees_the_feasible_nodes_beside_each_other() -> None:
    free = Free(cards("3x1xT4", used={"node-2/0": (500, 0), "node-3/0": (900, 0)}), order=np.arange(3))
    assert Ranking(shape(), free, Emptiest(free, scaled=True)).best() == 1


def test_a_pool_without_nodes_has_no_best_one() -> None:
    free = Free(cards(""))
    assert Ranking(shape(), free, Emptiest(free)).best() is None


def test_only_the_shapes_used_last_are_kept() -> None:
    free = Free(cards("1x1xT4"))
    rankings = Rankings(free, Emptiest(free), kept=2)
    first = rankings.of(shape(100))
    assert rankings.of(shape(100)) is first
    rankings.of(shape(200))
    rankings.of(shape(300))
    assert rankings.of(shape(100)) is not first


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("seed", range(4))
def test_a_policy_begun_anew_rates_by_what_it_expects_then(seed: int) -> None:
    chance = np.random.default_rng(seed)
    free = Free(cards("8x8xT4+20x2xT4", hosts=(64_000, 1)))
    small, large = Shape(300, 0, cpu_milli=1000), Shape(1000, 0, 8, cpu_milli=16_000)
    lists = (Expected((small, large), (9.0, 1.0), 0), Expected((large, Shape(1000, 0)), (5.0, 1.0), 0))
    raters = [named(DEFAULT).start(free, expected, 0) for expected in lists]
    ranking = Ranking(small, free, raters[0])
    found = []
    for turn in range(24):
        node = int(chance.integers(len(free.cards.nodes)))
        row = free.of_node(node)[:1]
        free.take(node, row, 100, np.zeros(1, dtype=np.int64), 500)
        rater = raters[turn % 2]
        ranking.rate_by(rater)
        found.append((ranking.best(), Ranking(small, free, rater).best()))
    assert [one for one, _ in found] == [other for _, other in found]
    assert len({one for one, _ in found}) > 1
