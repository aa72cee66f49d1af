import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.binpack import BinpackRater
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes
from gpupool.scheduling.scoring.ranking import NodeRanking
from gpupool.scheduling.scoring.stream_fill.model import (
    StreamFillModel,
)
from gpupool.scheduling.scoring.stream_fill.policy import StreamFillRater, start_rater
from gpupool.scheduling.scoring.stream_fill.value_stream import NUMBER, StreamValueModel
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

HALF = Shape(500, 0, cpu_milli=1000)
EXPECTED = ExpectedDemand((HALF,), (1,))


def stream_fill(
    pool: CardTable, *shapes: Shape, ending: bool = False
) -> tuple[FreeCapacity, StreamFillRater]:
    free = FreeCapacity(pool, np.arange(len(pool.nodes)))
    expected = ExpectedDemand(
        shapes or (HALF,), (1,) * len(shapes or (HALF,)), 100 if ending else 0
    )
    return free, StreamFillRater(free, StreamFillModel.choose(free, expected))


def test_a_score_is_what_is_placed_less_what_is_displaced_and_paid_in_steps() -> None:
    free, rater = stream_fill(cards("1x1xT4+1x1xT4", used={"node-2/0": (500, 0)}))
    # Where halves are expected a share of 400 costs a whole half: 400 - 500, the half's worth twice
    # more as a part of a card, and 100 where it opens one.
    fit = ClaimFit(Shape(400, 0), free)
    assert rater.rate_nodes(fit, np.array([0, 1])).tolist() == [-1200 // 150, -1100 // 150]
    assert rater.rate_nodes(ClaimFit(HALF, free), np.array([0, 1])).tolist() == [-100 // 150, 0]
    # Whole cards pay nothing for a free one: 1000 are placed and 1000 displaced.
    assert rater.rate_nodes(ClaimFit(Shape(1000, 0), free), np.array([0])).tolist() == [0]


def test_processors_that_others_need_are_displaced_as_cards_are() -> None:
    free, rater = stream_fill(cards("2x1xT4", hosts=(2000, GIB)))
    free.set_hosts(np.array([0]), np.array([3000]), np.array([GIB]))
    bare = ClaimFit(Shape(0, 0, 0, cpu_milli=1000), free)
    assert rater.rate_nodes(bare, np.array([0, 1])).tolist() == [0, -500 // 150]


def test_a_share_goes_to_the_card_that_keeps_most_for_others_the_first_of_equals() -> None:
    free, rater = stream_fill(
        cards("1x4xT4", used={"node-1/1": (500, 0), "node-1/2": (700, 0), "node-1/3": (500, 0)})
    )
    # 300 on what nobody can use: 300; on a half 300 - 500 - 1000; on a free card 100 less.
    assert rater.order_cards(ClaimFit(Shape(300, 0), free), 0).tolist() == [2, 1, 3, 0]
    assert rater.order_cards(ClaimFit(HALF, free), 0).tolist() == [1, 3, 0]
    assert rater.order_cards(ClaimFit(Shape(250, 0, 2), free), 0).tolist() == [2, 1, 3, 0]


def test_the_first_node_in_rank_wins_where_scores_tie() -> None:
    free, rater = stream_fill(cards("3x2xT4"))
    ranking = NodeRanking(HALF, free, rater)
    taken = []
    for _ in range(6):
        node = ranking.find_best()
        assert node is not None
        free.take_seats(node, ranking.order_cards(node)[:1], 500, np.zeros(1, dtype=np.int64), 1000)
        taken.append(node)
    assert taken == [0, 0, 0, 0, 1, 1]


def test_a_card_that_lacks_memory_for_it_is_no_candidate() -> None:
    pool = cards("1x2xT4", used={"node-1/0": (500, 15 * GIB)})
    free, rater = stream_fill(pool)
    want = Shape(500, GIB)
    assert rater.order_cards(ClaimFit(want, free), 0).tolist() == [1]
    assert rater.rate_nodes(ClaimFit(want, free), np.array([0])).tolist() == [-100 // 150]


def test_new_prices_change_scores_and_nothing_is_worked_out_again() -> None:
    four = Shape(1000, 0, 4)
    free, rater = stream_fill(
        cards("4x4xT4"), four, *[Shape(1000, 0, cpu_milli=n) for n in range(12)]
    )
    one = Shape(1000, 0)
    ranking = NodeRanking(one, free, rater)
    ranking.find_best()
    epoch, before = rater.epoch, rater.rate_nodes(ranking.fit, np.array([3])).tolist()
    for node in (0, 1, 2):
        free.take_seats(node, free.get_node_rows(node)[:1], 1000, np.zeros(1, dtype=np.int64))
    ranking.find_best()
    assert rater.epoch > epoch
    assert rater.rate_nodes(ranking.fit.refresh(free), np.array([3]))[0] < before[0]
    assert ranking.find_best() == 0  # not the host that is whole still


def test_where_claims_end_a_node_is_worth_what_the_next_one_could_use() -> None:
    free, rater = stream_fill(
        cards("1x1xT4+1x1xT4", used={"node-2/0": (500, 0)}),
        HALF,
        Shape(250, 0),
        Shape(1000, 0),
        ending=True,
    )
    # The free card is of use to all three, what is left of it after 400 to two: 400 - (3000 - 2 x
    # 600) / 3, and 100 more that it was free. The half is of use to two, what is left of it to
    # none: 400 - 2 x 500 / 3. As a part a card is worth a quarter of what is cut from it: 400 costs
    # a half here, and a quarter where it is cut best.
    fit = ClaimFit(Shape(400, 0), free)
    lost = (125 - 62) * 3
    assert rater.rate_nodes(fit, np.array([0, 1])).tolist() == [
        -(900 + lost) // (3 * 40),
        (200 - lost) // (3 * 40),
    ]


def test_whether_claims_end_decides_what_a_node_is_worth() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (500, 0)})
    shapes, third = (HALF, Shape(300, 0)), Shape(300, 0)
    scores = []
    for returned_pct in (0, 49, 50, 100):
        free = FreeCapacity(pool)
        rater = start_rater(free, ExpectedDemand(shapes, (1, 1), returned_pct), 0)
        scores.append(int(rater.rate_nodes(ClaimFit(third, free), np.array([0]))[0]))
    # A stream fills the half with 300 or with 500, 400 in the mean; the next claim could use all of
    # it. Besides, a half of a card is cut for what costs a third of one: that counts twice, or a
    # quarter. Shares of 400 in the mean are told apart in finer steps than those of 475.
    assert scores[0] == scores[1] == (300 - 400 - 334) // (150 * 400**2 // 475**2)
    assert scores[2] == scores[3] == (300 - 500 - 42) // 40


def test_where_nothing_is_expected_it_is_binpack() -> None:
    free = FreeCapacity(cards("2x1xT4"), compiled=False)
    assert isinstance(start_rater(free, ExpectedDemand(), 0), BinpackRater)
    assert isinstance(
        start_rater(free, ExpectedDemand((Shape(0, 0, 0, cpu_milli=5),), (9,)), 0), BinpackRater
    )
    assert isinstance(start_rater(free, EXPECTED, 0), StreamFillRater)


def test_a_value_of_halves_is_two_to_a_card() -> None:
    values = StreamValueModel(build_classes(EXPECTED), NodeKinds(cards("1x2xT4")))
    assert values.get_value(values.build_state(0, 9000, [1000, 1000])) == 2000 * NUMBER


def test_main_memory_counts_where_it_is_the_scarcer_of_a_host() -> None:
    """Beside a claim that takes a host's memory a card is of no use, whatever its processors
    are."""
    pool = cards("2x2xT4", hosts=(100_000, 64 * GIB))
    need = Shape(1000, 0, cpu_milli=1000, host_bytes=32 * GIB)
    free = FreeCapacity(pool, np.arange(2), compiled=False)
    rater = start_rater(free, ExpectedDemand((need,), (1,), returned_pct=0), 0)
    free.set_hosts(np.array([0]), np.array([100_000]), np.array([40 * GIB]))
    hungry = Shape(0, 0, 0, cpu_milli=1000, host_bytes=16 * GIB)
    scores = rater.rate_nodes(ClaimFit(hungry, free), np.array([0, 1])).tolist()
    # The first node had memory for one card and has none now; the second for two and now for one,
    # less the cuts.
    assert scores[0] < scores[1] < 0
    modest = Shape(0, 0, 0, cpu_milli=16_000, host_bytes=0)
    assert rater.rate_nodes(ClaimFit(modest, free), np.array([0, 1])).tolist() == [0, 0]
