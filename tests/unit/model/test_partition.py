"""Which pieces of a card fit together. The counts were recorded from hardware rules, not from this
code."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.model.partition import (
    ForeignPiece,
    PartitionProfile,
    PartitionSlot,
    can_add_slot,
    format_mix,
    is_valid_set,
    list_foreign_slots,
    list_free_slots,
    list_slots,
    read_foreign_pieces,
    read_occupied_slots,
    write_foreign_pieces,
)
from gpupool.probes.mig_tables import list_mig_profiles

H200 = list_mig_profiles("H200")


def without_media(model: str) -> tuple[PartitionProfile, ...]:
    return tuple(p for p in list_mig_profiles(model) if not p.media)


def valid_sets(profiles: tuple[PartitionProfile, ...]) -> list[tuple[PartitionSlot, ...]]:
    """Every set that can stand on one card, the empty one too."""
    found: list[tuple[PartitionSlot, ...]] = [()]
    for place in list_slots(profiles):
        found += [(*chosen, place) for chosen in found if can_add_slot(profiles, chosen, place)]
    return found


@pytest.mark.parametrize(
    ("model", "places", "sets"), [("H200", 18, 723), ("A100-40G", 18, 723), ("A30", 7, 26)]
)
def test_as_many_sets_are_possible_as_on_the_hardware(model: str, places: int, sets: int) -> None:
    profiles = without_media(model)
    assert len(list_slots(profiles)) == places
    assert len(valid_sets(profiles)) == sets


def test_a_card_of_eight_units_knows_78_different_mixes() -> None:
    mixes = {
        tuple(sorted(p.profile for p in chosen)) for chosen in valid_sets(without_media("H200"))
    }
    assert len(mixes) == 78


@pytest.mark.parametrize(
    ("profile", "start", "left"),
    [
        ("1g.18gb", 6, 14),
        ("1g.18gb", 0, 12),
        ("1g.35gb", 6, 14),
        ("1g.35gb", 0, 11),
        ("2g.35gb", 4, 12),
        ("2g.35gb", 0, 11),
        ("3g.71gb", 4, 10),
        ("3g.71gb", 0, 7),
    ],
)
def test_the_high_end_of_a_card_costs_fewer_places_than_the_low_end(
    profile: str, start: int, left: int
) -> None:
    profiles = without_media("H200")
    size = next(p.size for p in profiles if p.name == profile)
    assert len(list_free_slots(profiles, [PartitionSlot(start, size, profile)])) == left


def test_no_more_than_seven_slices_are_ever_in_use() -> None:
    slices = {p.name: int(p.name[0]) for p in H200}
    assert (
        max(sum(slices[p.profile] for p in chosen) for chosen in valid_sets(without_media("H200")))
        == 7
    )


def test_the_media_engines_can_be_given_away_once() -> None:
    taken = [PartitionSlot(0, 1, "1g.18gb+me")]
    assert not can_add_slot(H200, taken, PartitionSlot(1, 1, "1g.18gb+me"))
    assert can_add_slot(H200, taken, PartitionSlot(1, 1, "1g.18gb"))
    a30 = list_mig_profiles("A30")
    assert not can_add_slot(
        a30, [PartitionSlot(0, 2, "2g.12gb+me")], PartitionSlot(3, 1, "1g.6gb+me")
    )


def test_a_shape_may_be_allowed_fewer_times_than_it_has_places() -> None:
    shape = PartitionProfile("1g.12gb-me", 1, 12 << 30, (0, 1, 2, 3), 3, 250)
    taken = [PartitionSlot(start, 1, shape.name) for start in range(3)]
    assert can_add_slot([shape], taken[:2], PartitionSlot(3, 1, shape.name))
    assert not can_add_slot([shape], taken, PartitionSlot(3, 1, shape.name))


@pytest.mark.parametrize(
    "wanted",
    [
        PartitionSlot(1, 2, "2g.35gb"),
        PartitionSlot(0, 1, "2g.35gb"),
        PartitionSlot(0, 2, "2g.20gb"),
        PartitionSlot(-2, 2, "2g.35gb"),
        PartitionSlot(8, 1, "1g.18gb"),
    ],
)
def test_a_place_the_card_does_not_offer_never_fits(wanted: PartitionSlot) -> None:
    assert not can_add_slot(H200, [], wanted)


def test_the_shapes_of_a_card_add_up_to_no_more_than_the_card() -> None:
    for chosen in valid_sets(without_media("H200")):
        milli = {p.name: p.gpu_milli for p in H200}
        assert sum(milli[p.profile] for p in chosen) <= 1000


def test_a_mix_is_written_as_people_write_it() -> None:
    chosen = [
        PartitionSlot(4, 1, "1g.18gb"),
        PartitionSlot(0, 4, "3g.71gb"),
        PartitionSlot(5, 1, "1g.18gb"),
    ]
    assert format_mix(chosen) == "3g.71gb + 2 x 1g.18gb"
    assert format_mix([]) == ""


@given(st.lists(st.sampled_from(list_slots(H200)), max_size=5))
def test_the_order_in_which_pieces_are_made_does_not_matter(chosen: list[PartitionSlot]) -> None:
    assert len({is_valid_set(H200, order) for order in permutations(chosen)}) == 1


@given(st.lists(st.sampled_from(list_slots(H200)), max_size=8))
def test_the_pieces_of_a_valid_set_never_share_a_unit(chosen: list[PartitionSlot]) -> None:
    units = [unit for place in chosen for unit in place.units]
    if is_valid_set(H200, chosen):
        assert len(units) == len(set(units))
        assert set(units) <= set(range(8))


@given(st.lists(st.sampled_from(list_slots(H200)), max_size=8), st.data())
def test_taking_a_piece_away_opens_places_and_closes_none(
    chosen: list[PartitionSlot], data: st.DataObject
) -> None:
    if not chosen or not is_valid_set(H200, chosen):
        return
    fewer = list(chosen)
    fewer.remove(data.draw(st.sampled_from(chosen)))
    assert set(list_free_slots(H200, chosen)) < set(list_free_slots(H200, fewer))


def test_foreign_pieces_survive_their_way_through_json() -> None:
    pieces = (
        ForeignPiece("GPU instance 7", PartitionSlot(4, 2, "2g")),
        ForeignPiece("2 virtual functions"),
    )
    facts = json.loads(json.dumps({"foreign": write_foreign_pieces(pieces)}))
    assert read_foreign_pieces(facts) == pieces
    assert [one.describe() for one in pieces] == [
        "slot 4 to 5: GPU instance 7",
        "2 virtual functions",
    ]
    assert read_foreign_pieces({}) == ()


def test_our_own_partition_is_not_counted_twice() -> None:
    own = PartitionSlot(4, 2, "2g")
    facts = {"foreign": write_foreign_pieces([ForeignPiece("half made", own)])}
    assert list_foreign_slots(facts, [own]) == ()
    assert read_occupied_slots(facts, [[4, 2, "2g"]]) == (own,)
    assert read_occupied_slots(facts, None) == (own,)
