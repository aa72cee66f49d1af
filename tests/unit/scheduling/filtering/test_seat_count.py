import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.seat_count import (
    count_claims,
    count_claims_by_node,
    count_seats,
    pick_cards,
)
from gpupool.scheduling.snapshot.cards import CardStatus
from tests.support.scheduling_builders import cards, whole
from tests.support.seat_builders import fitted
from tests.support.time_builders import used_by


def test_a_card_has_as_many_seats_as_its_scarcer_of_compute_and_memory_allows() -> None:
    pool = cards("1x3xT4", used={"node-1/0": (500, GIB), "node-1/1": (0, 10 * GIB)})
    assert count_seats(*fitted(pool, Shape(200, 4 * GIB))).tolist() == [2, 1, 3]


def test_a_whole_card_has_one_seat_or_none_and_a_closed_one_has_none() -> None:
    pool = cards("1x3xT4", used={"node-1/0": (1, 0)}, status={"node-1/1": CardStatus.DRAINING})
    assert count_seats(*fitted(pool, whole())).tolist() == [0, 0, 1]


def test_columns_below_nothing_have_no_seat() -> None:
    fit, free, columns = fitted(cards("1x1xT4"), Shape(100, GIB))
    assert count_seats(fit, free, columns._replace(milli=columns.milli - 2000)).tolist() == [0]


def test_a_claim_of_several_cards_finds_room_only_where_that_many_cards_have_a_seat() -> None:
    pool = cards("2x2xT4", used=used_by("node-1/0"))
    assert count_claims_by_node(*fitted(pool, whole(2))).tolist() == [0, 1]
    assert count_claims_by_node(*fitted(pool, Shape(400, GIB, 2))).tolist() == [0, 2]


def test_few_nodes_are_touched_and_none_beyond_what_was_asked_for() -> None:
    pool = cards("1x1xT4+1x4xT4+1x2xT4")
    fit, free, columns = fitted(pool, whole())
    taken = pick_cards(fit, free, columns, 5)
    assert taken.rows.tolist() == [1, 2, 3, 4, 5]
    assert (count_claims(taken, 1), taken.milli.tolist()) == (5, [WHOLE] * 5)


def test_cards_that_are_to_be_among_the_chosen_go_first() -> None:
    fit, free, columns = fitted(cards("2x2xT4"), whole())
    assert pick_cards(fit, free, columns, 1, np.array([0, 0, 0, 1])).rows.tolist() == [3]


def test_claims_over_several_cards_use_the_cards_with_most_room_so_that_all_of_them_find_some() -> (
    None
):
    fit, free, columns = fitted(cards("1x3xT4"), Shape(500, GIB, 2))
    taken = pick_cards(fit, free, columns, 3)
    assert count_claims(taken, 2) == 3
    assert taken.counts.tolist() == [2, 2, 2]


def test_where_there_is_too_little_room_as_many_as_fit_are_picked() -> None:
    fit, free, columns = fitted(cards("1x3xT4"), whole(2))
    assert count_claims(pick_cards(fit, free, columns, 2), 2) == 1
