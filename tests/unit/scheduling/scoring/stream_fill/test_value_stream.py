from collections import Counter

import numpy as np
import pytest

from gpupool.model.claim import Shape
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds, build_classes
from gpupool.scheduling.scoring.stream_fill import value_stream
from gpupool.scheduling.scoring.stream_fill.value_stream import (
    LENGTH,
    NUMBER,
    NodeState,
    StreamMenu,
    StreamValueModel,
    draw_streams,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

HALF, PAIR, TWICE = (
    Shape(500, 0, cpu_milli=1000),
    Shape(1000, 0, 2),
    Shape(300, 0, 2, cpu_milli=2000),
)
BARE, TYPED = Shape(0, 0, 0, cpu_milli=1), Shape(700, 0, model="H200")


def classes(*shapes: Shape) -> DemandClasses:
    return build_classes(ExpectedDemand(shapes, tuple(range(len(shapes), 0, -1))))


def menu(line: list[int], *shapes: Shape) -> StreamMenu:
    """One stream, of classes by number."""
    return StreamMenu(
        np.array([line], dtype=np.int16), classes(*shapes), [shape.count > 0 for shape in shapes], 4
    )


def test_a_stream_places_what_fits_and_passes_over_the_rest() -> None:
    one = menu([0, 1, 0, 0, 0, 0], HALF, PAIR)
    # 500 on the part of 600, no pair is free any more, then 500 twice on the free card, and nothing
    # after that.
    assert one.compute_value(NodeState(0, 9000 // 4, 1, (600,))) == 1500
    assert one.compute_value(NodeState(0, 2000 // 4, 1, (600,))) == 1000  # processors for two
    assert (
        one.compute_value(NodeState(0, 9000 // 4, 3, ())) == 3000
    )  # the pair takes two cards, halves the third
    assert (
        one.compute_value(NodeState(0, 0, 3, ())) == 2000
    )  # without processors the pair alone, which asks for none
    assert menu([1, 0], HALF, PAIR).compute_value(NodeState(0, 9000, 2, ())) == 2000


def test_shares_go_to_the_tightest_part_and_those_of_one_claim_to_cards_of_their_own() -> None:
    assert (
        menu([0, 1], Shape(400, 0), Shape(600, 0)).compute_value(NodeState(0, 0, 0, (400, 600)))
        == 1000
    )
    assert (
        menu([0, 0], TWICE).compute_value(NodeState(0, 4000 // 4, 1, (300,))) == 600
    )  # 700 is left, but on one card
    assert menu([0, 0], TWICE).compute_value(NodeState(0, 4000 // 4, 1, (600,))) == 1200
    assert menu([0, 0], TWICE).compute_value(NodeState(0, 3999 // 4, 1, (600,))) == 600


def test_every_stream_has_its_claims_as_often_as_they_are_expected() -> None:
    many = draw_streams(classes(HALF, PAIR, BARE))
    assert many.shape == (NUMBER, LENGTH)
    seen = Counter(many.reshape(-1).tolist())
    for number, weight in enumerate((3, 2, 1)):
        assert seen[number] / many.size == pytest.approx(weight / 6, abs=0.03)
    assert (many == draw_streams(classes(HALF, PAIR, BARE))).all()


def test_a_value_asks_only_who_may_run_there() -> None:
    values = StreamValueModel(classes(TYPED, BARE), NodeKinds(cards("1x1xT4+1x1xH200")))
    assert values.get_value(values.build_state(0, 9000, [1000])) == 0
    assert values.get_value(values.build_state(1, 9000, [1000])) == 700 * NUMBER


def test_parts_that_nobody_can_use_and_crumbs_of_processors_make_no_other_state() -> None:
    values = StreamValueModel(classes(HALF), NodeKinds(cards("1x1xT4")))
    assert values.build_state(0, 9001, [1000, 499, -1, 600]) == values.build_state(
        0, 9003, [600, 1000, 120]
    )


def test_the_state_after_a_claim_is_that_of_the_node_it_leaves_behind() -> None:
    values = StreamValueModel(classes(HALF, PAIR), NodeKinds(cards("1x1xT4")))
    before = values.build_state(0, 9000, [1000, 600, 1000, 550])
    assert values.cut_card(before, 1000, 9000, 600, 50) == values.build_state(
        0, 8000, [1000, 550, 1000, 550]
    )
    assert values.cut_card(before, 1000, 9000, 1000, 300) == values.build_state(
        0, 8000, [700, 600, 1000, 550]
    )
    assert values.place_claim(before, 0, 9000, 2, 1000) == values.build_state(
        0, 9000, [0, 600, 0, 550]
    )
    assert values.place_claim(before, 10, 9000, 3, 100) == values.build_state(
        0, 8990, [900, 500, 1000, 450]
    )
    assert values.place_claim(before, 10, 9000, 0, 0) == values.build_state(
        0, 8990, [1000, 600, 1000, 550]
    )


def test_values_are_remembered_and_forgetting_them_changes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = StreamValueModel(classes(HALF, PAIR), NodeKinds(cards("1x1xT4")))
    states = [values.build_state(0, 5000, [1000, milli]) for milli in (500, 600, 700, 800)]
    known = [values.get_value(state) for state in states]
    monkeypatch.setattr(value_stream, "REMEMBERED", 2)
    fresh = StreamValueModel(classes(HALF, PAIR), NodeKinds(cards("1x1xT4")))
    assert [fresh.get_value(state) for state in (*states, *states)] == known * 2
