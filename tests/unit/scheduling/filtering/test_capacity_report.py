"""What the pool could still give, by card and by model."""

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.capacity_report import (
    ModelCapacity,
    compute_fragments,
    compute_mean_fragment,
    compute_placeable,
    list_model_capacities,
    list_shape_fragments,
)
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardStatus
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards


def test_the_largest_share_of_a_card_is_what_it_has_free_in_whole_mib() -> None:
    milli, size = compute_placeable(cards("2xT4", used={"node-1/0": (300, 5 * GIB - 1)}))
    assert list(zip(milli.tolist(), size.tolist(), strict=True)) == [
        (700, 10 * GIB),
        (1000, 15 * GIB),
    ]


def test_a_card_that_is_not_open_gives_nothing() -> None:
    milli, size = compute_placeable(cards("1xT4", status={"node-1/0": CardStatus.DRAINING}))
    assert (milli.tolist(), size.tolist()) == ([0], [0])


def test_a_card_that_is_overcommitted_gives_nothing_rather_than_less() -> None:
    milli, size = compute_placeable(cards("1xT4", used={"node-1/0": (1100, 16 * GIB)}))
    assert (milli.tolist(), size.tolist()) == ([0], [0])


def test_the_room_of_a_model_is_its_best_card_and_its_whole_cards() -> None:
    used = {
        "node-1/0": (300, GIB),
        "node-1/1": (1000, GIB),
        "node-2/0": (200, 2 * GIB),
        "node-2/1": (200, MIB),
    }
    assert list_model_capacities(FreeCapacity(cards("1x4xH200+1x2xT4", used=used)), None) == (
        ModelCapacity("H200", 1000, 140 * GIB, 2, 4, 2, 0, 2700, None),
        ModelCapacity("T4", 800, 15 * GIB - MIB, 0, 2, 0, 0, 1600, None),
    )


def test_whole_cards_scattered_over_nodes_are_no_large_claim() -> None:
    used = {"node-1/0": (1000, GIB), "node-2/1": (1000, GIB)}
    (room,) = list_model_capacities(FreeCapacity(cards("3x2xH200", used=used)), None)
    assert (room.whole_free, room.whole_on_one_node, room.whole_nodes) == (4, 2, 1)


def test_what_is_free_and_too_little_for_a_claim_is_its_fragment() -> None:
    free = FreeCapacity(cards("1x4xT4", used={"node-1/0": (600, 0), "node-1/1": (1000, 0)}))
    assert compute_fragments(free, Shape(500, 0)).tolist() == [400, 0, 0, 0]
    assert compute_fragments(free, Shape(400, 0)).tolist() == [0, 0, 0, 0]
    # Three whole cards do not fit on the node, so nothing on it is of use to them.
    assert compute_fragments(free, Shape(1000, count=3)).tolist() == [400, 0, 1000, 1000]


def test_memory_that_is_gone_makes_a_fragment_of_the_compute_beside_it() -> None:
    free = FreeCapacity(cards("1x1xT4", used={"node-1/0": (100, 15 * GIB)}))
    assert compute_fragments(free, Shape(500, GIB)).tolist() == [900]


def test_the_mean_weighs_shapes_by_how_often_they_are_expected() -> None:
    free = FreeCapacity(cards("1x1xT4", used={"node-1/0": (600, 0)}))
    expected = ExpectedDemand((Shape(500, 0), Shape(300, 0)), (30.0, 10.0))
    lost = compute_mean_fragment(list_shape_fragments(free, expected))
    assert lost == pytest.approx([300.0])
    (room,) = list_model_capacities(free, lost)
    assert room.fragment_milli == pytest.approx(300.0)


def test_rare_shapes_and_claims_to_no_card_are_left_out() -> None:
    free = FreeCapacity(cards("1x1xT4", used={"node-1/0": (600, 0)}))
    rare = ExpectedDemand((Shape(300, 0), Shape(900, 0), Shape(1000, count=0)), (96.0, 4.0, 500.0))
    assert [(one.shape, one.part) for one in list_shape_fragments(free, rare)] == [
        (Shape(300, 0), 1.0)
    ]


def test_where_nothing_is_expected_nothing_is_known_of_fragments() -> None:
    assert (
        compute_mean_fragment(list_shape_fragments(FreeCapacity(cards("1x1xT4")), ExpectedDemand()))
        is None
    )


def test_an_empty_pool_has_no_rooms() -> None:
    assert list_model_capacities(FreeCapacity(cards("")), None) == ()
