import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes
from gpupool.scheduling.scoring.fgd import FgdRater, FragmentModel, compute_thresholds
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

SHARE = Shape(500, 0, cpu_milli=2000)
PAIR = Shape(1000, 0, 2, cpu_milli=1000)
TYPED = Shape(300, 0, model="H200")
BARE = Shape(0, 0, 0, cpu_milli=100)


def fragments(*shapes: Shape, counts: tuple[int, ...], pool: str = "1x2xT4") -> FragmentModel:
    return FragmentModel(build_classes(ExpectedDemand(shapes, counts)), NodeKinds(cards(pool)))


def amount(measure: FragmentModel, *cells: int, cpu: int = 4000) -> int:
    return int(measure.compute_amount(np.array([cells]), np.array([cpu]), np.array([0]))[0])


def test_a_class_that_runs_sees_the_cards_too_full_for_it_and_others_see_all() -> None:
    measure = fragments(SHARE, PAIR, BARE, counts=(3, 1, 1))
    # 1000 + 400 are free: the share cannot use the 400; neither the pair nor the claim without
    # cards can use anything.
    assert amount(measure, 1000, 400) == 3 * 400 + 1400 + 1400
    assert amount(measure, 1000, 400, cpu=1999) == 5 * 1400
    assert amount(measure, 1000, 1000) == 3 * 0 + 0 + 2000
    assert amount(measure, 0, 0) == 0
    assert measure.total == 5


def test_a_class_of_another_model_sees_all_of_it() -> None:
    assert amount(fragments(TYPED, SHARE, counts=(1, 1)), 1000, 0) == 1000


def test_a_score_is_the_truncated_sigmoid_of_what_is_saved() -> None:
    scores = np.searchsorted(
        compute_thresholds(7),
        7 * np.array([-8000, -41, -40, -1, 0, 1, 40, 41, 1000, 8000]),
        side="right",
    )
    assert scores.tolist() == [0, 48, 49, 49, 50, 50, 50, 51, 73, 99]


def test_a_share_goes_to_the_card_where_it_fragments_least_the_first_of_equals() -> None:
    pool = cards("1x4xT4", used={"node-1/1": (500, 0), "node-1/3": (500, 0)})
    free = FreeCapacity(pool)
    rater = FgdRater(free, build_classes(ExpectedDemand((SHARE,), (1,))))
    fit = ClaimFit(Shape(400, 0), free)
    # On a free card 100 would be lost to later shares of 500; on a half used one 100 as well, and
    # 400 that fitted one. F: free card 0 -> 0 (600 takes one), half used card 0 -> 100.
    assert rater.order_cards(fit, 0).tolist() == [0, 2, 1, 3]
    assert rater.rate_nodes(fit, np.array([0])).tolist() == [50]
    assert rater.rate_nodes(ClaimFit(Shape(500, 0), free), np.array([0])).tolist() == [50]


def test_whole_cards_are_taken_by_index_and_shares_on_several_cards_tightest_first() -> None:
    free = FreeCapacity(cards("1x4xT4", used={"node-1/0": (400, 0), "node-1/2": (200, 0)}))
    rater = FgdRater(free, build_classes(ExpectedDemand((SHARE,), (1,))))
    assert rater.order_cards(ClaimFit(Shape(1000, 0, 2), free), 0).tolist() == [1, 3]
    assert rater.order_cards(ClaimFit(Shape(300, 0, 2), free), 0).tolist() == [0, 2, 1, 3]
    # 600, 1000, 800, 1000 lose 300 each on the tightest two: 300 is left of one, a fragment; 500 of
    # the other.
    expected = 100 / (1 + np.exp(300 / 1000))
    assert rater.rate_nodes(ClaimFit(Shape(300, 0, 2), free), np.array([0])).tolist() == [
        int(expected)
    ]


def test_where_nothing_is_expected_all_nodes_are_alike() -> None:
    free = FreeCapacity(cards("2x1xT4"))
    rater = FgdRater(free, build_classes(ExpectedDemand()))
    assert len(set(rater.rate_nodes(ClaimFit(Shape(300, 0), free), np.array([0, 1])).tolist())) == 1
