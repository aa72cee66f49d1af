"""Which cut leaves the most useful profiles, on the boards whose geometry is recorded."""

from __future__ import annotations

import pytest

from gpupool.model.partition import PartitionProfile, PartitionSlot, is_valid_set
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.filtering.partition_fit import (
    best_card,
    choose_slot,
    compute_layout_value,
    count_fitting,
)

A100 = list_mig_profiles("A100-40G")
BY_NAME = {profile.name: profile for profile in A100}


def cut(*placed: tuple[int, str]) -> tuple[PartitionSlot, ...]:
    return tuple(PartitionSlot(start, BY_NAME[name].size, name) for start, name in placed)


def test_an_empty_board_takes_as_many_of_a_profile_as_its_maker_says() -> None:
    assert {name: count_fitting(A100, (), profile) for name, profile in BY_NAME.items()} == {
        "1g.5gb": 7,
        "1g.5gb+me": 1,
        "1g.10gb": 4,
        "2g.10gb": 3,
        "3g.20gb": 2,
        "4g.20gb": 1,
        "7g.40gb": 1,
    }


def test_a_small_piece_goes_where_the_larger_profiles_lose_least() -> None:
    place, _ = choose_slot(A100, (), "1g.5gb") or pytest.fail("no place")
    left = (place,)
    # The one 4g and one of the two 3g can still be cut; at place 0 only a 3g could.
    assert place.start >= 4
    assert count_fitting(A100, left, BY_NAME["4g.20gb"]) == 1


def test_small_pieces_gather_in_the_half_that_is_broken_already() -> None:
    taken = cut((6, "1g.5gb"))
    place, _ = choose_slot(A100, taken, "1g.5gb") or pytest.fail("no place")
    assert place.start in (4, 5)
    assert count_fitting(A100, (*taken, place), BY_NAME["4g.20gb"]) == 1


def test_what_is_wanted_decides_what_is_kept() -> None:
    third = PartitionProfile("third", 2, 0, (0, 1, 2, 4), 3, 333)
    half = PartitionProfile("half", 3, 0, (0, 3), 2, 500)
    both = (third, half)
    keep_halves, _ = choose_slot(both, (), "third", {"half": 1.0}) or pytest.fail("no place")
    assert count_fitting(both, (keep_halves,), half) == 1
    assert compute_layout_value(both, (keep_halves,), {"third": 1.0}) <= compute_layout_value(
        both, (), {"third": 1.0}
    )


def test_a_full_card_has_no_place_and_a_broken_one_is_preferred_to_a_whole_one() -> None:
    full = cut((0, "7g.40gb"))
    assert choose_slot(A100, full, "1g.5gb") is None
    broken = cut((6, "1g.5gb"))
    number, place = best_card([(A100, ()), (A100, full), (A100, broken)], "1g.5gb") or pytest.fail(
        "no card"
    )
    assert number == 2
    assert is_valid_set(A100, (*broken, place))


def test_a_profile_that_no_card_publishes_has_no_place() -> None:
    assert best_card([(A100, ())], "9g.90gb") is None
    assert best_card([], "1g.5gb") is None


@pytest.mark.parametrize("model", ["A30", "A100-40G", "H100", "H200"])
def test_a_board_filled_by_best_cuts_holds_as_many_small_pieces_as_it_can(model: str) -> None:
    profiles = list_mig_profiles(model)
    smallest = profiles[0]
    taken: tuple[PartitionSlot, ...] = ()
    while found := choose_slot(profiles, taken, smallest.name):
        taken = (*taken, found[0])
    assert len(taken) == smallest.max_count
    assert is_valid_set(profiles, taken)
