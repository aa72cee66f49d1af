import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.expected import Kinds, histogram
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.host_resource import MAIN_MEMORY, PROCESSORS
from gpupool.scheduling.kernel import Kernel
from gpupool.scheduling.ranking import Ranking
from gpupool.scheduling.score_binpack import Binpack
from gpupool.scheduling.score_stream import FINE_STEP_BELOW, SCATTERED_STEP, STEP, Look, StreamFill, start
from gpupool.scheduling.snapshot import Cards, Expected
from gpupool.scheduling.streams import NUMBER, Values
from tests.support.scheduling_builders import cards

HALF = Shape(500, 0, cpu_milli=1000)
EXPECTED = Expected((HALF,), (1,))


def stream_fill(pool: Cards, *shapes: Shape, ending: bool = False) -> tuple[Free, StreamFill]:
    free = Free(pool, np.arange(len(pool.nodes)))
    expected = Expected(shapes or (HALF,), (1,) * len(shapes or (HALF,)), 100 if ending else 0)
    return free, StreamFill(free, Look.of(free, expected))


def test_a_score_is_what_is_placed_less_what_is_displaced_and_paid_in_steps() -> None:
    free, rater = stream_fill(cards("1x1xT4+1x1xT4", used={"node-2/0": (500, 0)}))
    # Where halves are expected a share of 400 costs a whole half: 400 - 500, the half's worth twice more as a part of a
    # card, and 100 where it opens one.
    fit = Fit(Shape(400, 0), free)
    assert rater.rate(fit, np.array([0, 1])).tolist() == [-1200 // 150, -1100 // 150]
    assert rater.rate(Fit(HALF, free), np.array([0, 1])).tolist() == [-100 // 150, 0]
    # Whole cards pay nothing for a free one: 1000 are placed and 1000 displaced.
    assert rater.rate(Fit(Shape(1000, 0), free), np.array([0])).tolist() == [0]


def test_processors_that_others_need_are_displaced_as_cards_are() -> None:
    free, rater = stream_fill(cards("2x1xT4", hosts=(2000, GIB)))
    free.set_hosts(np.array([0]), np.array([3000]), np.array([GIB]))
    bare = Fit(Shape(0, 0, 0, cpu_milli=1000), free)
    assert rater.rate(bare, np.array([0, 1])).tolist() == [0, -500 // 150]


def test_a_share_goes_to_the_card_that_keeps_most_for_others_the_first_of_equals() -> None:
    free, rater = stream_fill(cards("1x4xT4", used={"node-1/1": (500, 0), "node-1/2": (700, 0), "node-1/3": (500, 0)}))
    # 300 on what nobody can use: 300; on a half 300 - 500 - 1000; on a free card 100 less.
    assert rater.choose(Fit(Shape(300, 0), free), 0).tolist() == [2, 1, 3, 0]
    assert rater.choose(Fit(HALF, free), 0).tolist() == [1, 3, 0]
    assert rater.choose(Fit(Shape(250, 0, 2), free), 0).tolist() == [2, 1, 3, 0]


def test_the_first_node_in_rank_wins_where_scores_tie() -> None:
    free, rater = stream_fill(cards("3x2xT4"))
    ranking = Ranking(HALF, free, rater)
    taken = []
    for _ in range(6):
        node = ranking.best()
        assert node is not None
        free.take(node, ranking.choose(node)[:1], 500, np.zeros(1, dtype=np.int64), 1000)
        taken.append(node)
    assert taken == [0, 0, 0, 0, 1, 1]


def test_a_card_that_lacks_memory_for_it_is_no_candidate() -> None:
    pool = cards("1x2xT4", used={"node-1/0": (500, 15 * GIB)})
    free, rater = stream_fill(pool)
    want = Shape(500, GIB)
    assert rater.choose(Fit(want, free), 0).tolist() == [1]
    assert rater.rate(Fit(want, free), np.array([0])).tolist() == [-100 // 150]


def test_new_prices_change_scores_and_nothing_is_worked_out_again() -> None:
    four = Shape(1000, 0, 4)
    free, rater = stream_fill(cards("4x4xT4"), four, *[Shape(1000, 0, cpu_milli=n) for n in range(12)])
    one = Shape(1000, 0)
    ranking = Ranking(one, free, rater)
    ranking.best()
    epoch, before = rater.epoch, rater.rate(ranking.fit, np.array([3])).tolist()
    for node in (0, 1, 2):
        free.take(node, free.of_node(node)[:1], 1000, np.zeros(1, dtype=np.int64))
    ranking.best()
    assert rater.epoch > epoch
    assert rater.rate(ranking.fit.refresh(free), np.array([3]))[0] < before[0]
    assert ranking.best() == 0  # not the host that is whole still


def test_where_claims_end_a_node_is_worth_what_the_next_one_could_use() -> None:
    free, rater = stream_fill(
        cards("1x1xT4+1x1xT4", used={"node-2/0": (500, 0)}), HALF, Shape(250, 0), Shape(1000, 0), ending=True
    )
    # The free card is of use to all three, what is left of it after 400 to two: 400 - (3000 - 2 x 600) / 3, and 100
    # more that it was free. The half is of use to two, what is left of it to none: 400 - 2 x 500 / 3. As a part a card
    # is worth a quarter of what is cut from it: 400 costs a half here, and a quarter where it is cut best.
    fit = Fit(Shape(400, 0), free)
    lost = (125 - 62) * 3
    assert rater.rate(fit, np.array([0, 1])).tolist() == [-(900 + lost) // (3 * 40), (200 - lost) // (3 * 40)]


def test_whether_claims_end_decides_what_a_node_is_worth() -> None:
    pool = cards("1x1xT4", used={"node-1/0": (500, 0)})
    shapes, third = (HALF, Shape(300, 0)), Shape(300, 0)
    scores = []
    for returned_pct in (0, 49, 50, 100):
        free = Free(pool)
        rater = start(free, Expected(shapes, (1, 1), returned_pct), 0)
        scores.append(int(rater.rate(Fit(third, free), np.array([0]))[0]))
    # A stream fills the half with 300 or with 500, 400 in the mean; the next claim could use all of it. Besides, a half
    # of a card is cut for what costs a third of one: that counts twice, or a quarter. Shares of 400 in the mean are
    # told apart in finer steps than those of 475.
    assert scores[0] == scores[1] == (300 - 400 - 334) // (150 * 400**2 // 475**2)
    assert scores[2] == scores[3] == (300 - 500 - 42) // 40


def test_where_nothing_is_expected_it_is_binpack() -> None:
    free = Free(cards("2x1xT4"), compiled=False)
    assert isinstance(start(free, Expected(), 0), Binpack)
    assert isinstance(start(free, Expected((Shape(0, 0, 0, cpu_milli=5),), (9,)), 0), Binpack)
    assert isinstance(start(free, EXPECTED, 0), StreamFill)


def test_a_value_of_halves_is_two_to_a_card() -> None:
    values = Values(histogram(EXPECTED), Kinds(cards("1x2xT4")))
    assert values.of(values.state(0, 9000, [1000, 1000])) == 2000 * NUMBER


def test_main_memory_counts_where_it_is_the_scarcer_of_a_host() -> None:
    """Beside a claim that takes a host's memory a card is of no use, whatever its processors are."""
    pool = cards("2x2xT4", hosts=(100_000, 64 * GIB))
    need = Shape(1000, 0, cpu_milli=1000, host_bytes=32 * GIB)
    free = Free(pool, np.arange(2), compiled=False)
    rater = start(free, Expected((need,), (1,), returned_pct=0), 0)
    free.set_hosts(np.array([0]), np.array([100_000]), np.array([40 * GIB]))
    hungry = Shape(0, 0, 0, cpu_milli=1000, host_bytes=16 * GIB)
    scores = rater.rate(Fit(hungry, free), np.array([0, 1])).tolist()
    # The first node had memory for one card and has none now; the second for two and now for one, less the cuts.
    assert scores[0] < scores[1] < 0
    modest = Shape(0, 0, 0, cpu_milli=16_000, host_bytes=0)
    assert rater.rate(Fit(modest, free), np.array([0, 1])).tolist() == [0, 0]


def test_processors_count_where_they_are_scarcer_and_where_claims_end() -> None:
    pool = cards("2x2xT4", hosts=(100_000, 64 * GIB))
    free = Free(pool, compiled=False)
    for asked, returned_pct, resource in [
        (Shape(1000, 0, cpu_milli=50_000, host_bytes=GIB), 0, PROCESSORS),
        (Shape(1000, 0, cpu_milli=1_000, host_bytes=32 * GIB), 0, MAIN_MEMORY),
        (Shape(1000, 0, cpu_milli=1_000, host_bytes=32 * GIB), 100, PROCESSORS),
    ]:
        assert Look.of(free, Expected((asked,), (1,), returned_pct)).resource is resource
    unknown = Free(cards("2x2xT4"), compiled=False)
    assert Look.of(unknown, Expected((Shape(1000, 0, host_bytes=GIB),), (1,), 0)).resource is PROCESSORS


def test_many_sizes_alike_are_rated_by_the_next_claim_also_while_a_pool_fills() -> None:
    free = Free(cards("2x2xT4"), compiled=False)
    many = tuple(Shape(size, 0) for size in range(50, 1000, 50))
    look = Look.of(free, Expected(many, (1,) * len(many), 0))
    assert (look.near, look.ending, look.step) == (True, False, SCATTERED_STEP)
    few = many[::4]
    assert not Look.of(free, Expected(few, (1,) * len(few), 0)).near


def test_where_hosts_are_gone_before_cards_streams_see_them_and_cuts_count_nothing() -> None:
    """A half of a card beside a host that is used up is worth nothing, however well it was cut."""
    many = range(50, 1000, 50)
    for host_gib, short in [(1, False), (40, True)]:
        free = Free(cards("2x2xT4", hosts=(100_000, 64 * GIB)), compiled=False)
        shapes = tuple(Shape(size, 0, cpu_milli=size, host_bytes=host_gib * size * GIB // 1000) for size in many)
        look = Look.of(free, Expected(shapes, (1,) * len(shapes), 0))
        assert (look.scattered, look.short, look.near) == (True, short, not short)
        assert look.resource is (MAIN_MEMORY if short else PROCESSORS)
        assert look.cuts(look.kinds(free)).worth.any() == (not short)
        assert not Look.of(free, Expected(shapes, (1,) * len(shapes), 100)).short


def test_small_shares_are_told_apart_in_finer_steps() -> None:
    free = Free(cards("2x2xT4"), compiled=False)
    steps = []
    for sizes in [(500,), (600, 810), (60, 120), (10,), ()]:
        shapes = (Shape(1000, 0), *(Shape(size, 0) for size in sizes))
        steps.append(Look.of(free, Expected(shapes, (1,) * len(shapes), 0)).step)
    assert steps == [STEP, STEP, STEP * 90**2 // FINE_STEP_BELOW**2, 1, STEP]


def test_steps_are_as_they_were_where_memory_of_cards_counts() -> None:
    free = Free(cards("2x2xT4"), compiled=False)
    served = Shape(100, 8 * GIB)
    look = Look.of(free, Expected((served,), (1,), 0))
    assert len(look.likely.memory)
    assert look.step == STEP


SIZES = {"few": (190, 300, 500, 810, 1000), "many": tuple(range(70, 980, 50)), "odd": tuple(range(31, 1000, 13))}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("returned_pct", [0, 100])
@pytest.mark.parametrize("host_gib", [1, 64], ids=["processors", "memory"])
def test_the_kernel_scores_and_chooses_as_numpy_does(
    kernel: Kernel, returned_pct: int, sizes: str, host_gib: int
) -> None:
    host = host_gib * GIB // 256
    shapes = (
        *(Shape(milli, 0, cpu_milli=milli * 4, host_bytes=milli * host // 4) for milli in SIZES[sizes]),
        *(Shape(1000, 0, count, cpu_milli=count * 3000, host_bytes=250 * count * host) for count in (2, 4)),
        *(Shape(500, 0, model="L40S"), Shape(300, 0, 2), Shape(0, 0, 0, cpu_milli=2000, host_bytes=90 * host)),
    )
    pool = cards("6x4xT4+4x8xL40S+mixed:T4,L40S", hosts=(20_000, 256 * GIB))
    expected = Expected(shapes, tuple(range(1, 2 * len(shapes), 2)), returned_pct)
    frees = [Free(pool, compiled=compiled) for compiled in (True, False)]
    look = Look.of(frees[0], expected)
    assert look.near == (returned_pct == 100 or (sizes != "few" and not look.short))
    assert (look.resource is MAIN_MEMORY) == (host_gib == 64 and not look.near)
    raters = [start(free, expected, 0) for free in frees]
    chance, held = np.random.default_rng(7), list[tuple[int, np.ndarray, int, np.ndarray, int, int]]()
    for _ in range(120):
        shape = shapes[chance.integers(len(shapes))]
        fits = [Fit(shape, free) for free in frees]
        nodes = np.flatnonzero(fits[0].roomy)
        epochs = [rater.epoch for rater in raters]
        scores = [rater.rate(fit, nodes).tolist() for rater, fit in zip(raters, fits, strict=True)]
        assert (epochs[0], scores[0]) == (epochs[1], scores[1])
        if len(nodes) == 0 or (held and chance.random() < 0.3):
            note = held.pop(int(chance.integers(len(held))))
            for free in frees:
                free.give(*note)
            continue
        node = int(nodes[np.argmax(scores[0])])
        chosen = [rater.choose(fit, node) for rater, fit in zip(raters, fits, strict=True)]
        assert chosen[0].tolist() == chosen[1].tolist()
        rows = chosen[0][: shape.count]
        none = np.zeros(len(rows), dtype=np.int64)
        held.append((node, rows, shape.held_milli, none, shape.cpu_milli, shape.host_bytes))
        for free in frees:
            free.take(*held[-1])
    assert raters[0].epoch > 5
