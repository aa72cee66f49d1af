from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes
from gpupool.scheduling.scoring.stream_fill.value_next_claim import NextClaimValueModel
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

HALF, PAIR = Shape(500, 0, cpu_milli=1000), Shape(1000, 0, 2)
TWICE, TYPED, BARE = (
    Shape(300, 0, 2, cpu_milli=2000),
    Shape(700, 0, model="H200"),
    Shape(0, 0, 0, cpu_milli=1),
)


def usable(*shapes: Shape) -> NextClaimValueModel:
    counts = tuple(range(len(shapes), 0, -1))
    return NextClaimValueModel(
        build_classes(ExpectedDemand(shapes, counts)), NodeKinds(cards("1x1xT4+1x1xH200"))
    )


def test_a_class_could_use_what_is_free_on_cards_wide_enough_for_it() -> None:
    of = usable(HALF, PAIR)
    assert of.scale == 3
    # Halves, twice as often: the parts of 600 and 500 and both free cards; pairs the free cards
    # alone.
    assert of.get_value(of.build_state(0, 9000, [1000, 600, 1000, 500, 499])) == 2 * 3100 + 2000
    assert (
        of.get_value(of.build_state(0, 9000, [1000, 600])) == 2 * 1600
    )  # one free card is no pair
    assert of.get_value(of.build_state(0, 999, [1000, 1000])) == 2000  # no processors for halves
    assert of.get_value(of.build_state(0, 9000, [400])) == 0


def test_shares_of_one_claim_need_cards_of_their_own() -> None:
    of = usable(TWICE)
    assert of.get_value(of.build_state(0, 9000, [700, 300])) == 1000
    assert of.get_value(of.build_state(0, 9000, [900, 200])) == 0


def test_who_may_not_run_there_or_asks_for_no_card_could_use_nothing() -> None:
    of = usable(TYPED, BARE)
    assert (
        of.get_value(of.build_state(0, 9000, [1000])),
        of.get_value(of.build_state(1, 9000, [1000])),
    ) == (0, 2 * 1000)
