"""What the choice of a slot keeps, compared with an exhaustive search over all layouts of a card."""

from __future__ import annotations

from functools import cache

import pytest

from gpupool.model.partition import (
    PartitionProfile,
    PartitionSlot,
    can_add_slot,
    find_open_slot,
    format_mix,
    list_free_slots,
    list_slots,
)
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.filtering.partition_fit import choose_slot, compute_layout_value

Layout = tuple[PartitionSlot, ...]
#: One board of each known layout, with the number of its valid sets and distinct mixes.
BOARDS = {"H200": (723, 78), "A30": (26, 10), "RTX-PRO-6000": (26, 10)}


@cache
def list_plain(model: str) -> tuple[PartitionProfile, ...]:
    return tuple(profile for profile in list_mig_profiles(model) if profile.is_plain)


@cache
def list_layouts(profiles: tuple[PartitionProfile, ...]) -> tuple[Layout, ...]:
    """Enumerate every set of slots that can exist together."""
    slots = list_slots(profiles)
    found: list[Layout] = []

    def extend(chosen: Layout, first: int) -> None:
        found.append(chosen)
        for position in range(first, len(slots)):
            if can_add_slot(profiles, chosen, slots[position]):
                extend((*chosen, slots[position]), position + 1)

    extend((), 0)
    return tuple(found)


def list_demands(model: str) -> dict[Layout, set[tuple[str, ...]]]:
    """By layout, the profiles that an exhaustive search can add to it, nothing moved."""
    layouts = [frozenset(layout) for layout in list_layouts(list_plain(model))]
    demands: dict[Layout, set[tuple[str, ...]]] = {}
    for layout in layouts:
        larger = [other for other in layouts if layout < other]
        demands[tuple(sorted(layout))] = {
            tuple(sorted(slot.profile for slot in other - layout)) for other in larger
        }
    return demands


@pytest.mark.parametrize("model", BOARDS)
def test_the_geometry_has_the_known_number_of_layouts(model: str) -> None:
    layouts = list_layouts(list_plain(model))
    mixes = {tuple(sorted(slot.profile for slot in layout)) for layout in layouts}
    assert (len(layouts), len(mixes)) == BOARDS[model]
    assert all(sum(slot.size for slot in layout) <= 12 for layout in layouts)


@pytest.mark.parametrize("model", BOARDS)
def test_a_claim_is_refused_only_where_no_layout_holds_it_beside_what_runs(model: str) -> None:
    profiles = list_plain(model)
    for layout, demands in list_demands(model).items():
        possible = {demand[0] for demand in demands if len(demand) == 1}
        for profile in profiles:
            chosen = choose_slot(profiles, layout, profile.name)
            assert (chosen is not None) == (profile.name in possible), format_mix(layout)
            assert (find_open_slot(profiles, layout, profile.name) is not None) == (
                profile.name in possible
            )


@pytest.mark.parametrize("model", BOARDS)
def test_what_fits_together_is_served_largest_first_from_every_layout(model: str) -> None:
    """The whole demand at once: 4,240 pairs of layout and demand on an H200."""
    profiles = list_plain(model)
    order = {profile.name: (profile.size, profile.gpu_milli) for profile in profiles}
    for layout, demands in list_demands(model).items():
        for demand in demands:
            taken = layout
            for name in sorted(demand, key=lambda one: order[one], reverse=True):
                slot = find_open_slot(profiles, taken, name)
                assert slot is not None, f"{demand} beside {format_mix(layout)}"
                taken = tuple(sorted((*taken, slot)))


@pytest.mark.parametrize("model", BOARDS)
def test_the_choice_keeps_most_free_slots_or_more_compute_that_can_be_cut(model: str) -> None:
    profiles = list_plain(model)
    exceptions = 0
    for layout in list_layouts(profiles):
        for profile in profiles:
            chosen = choose_slot(profiles, layout, profile.name)
            open_slot = find_open_slot(profiles, layout, profile.name)
            if chosen is None or open_slot is None:
                continue
            ours = (*layout, chosen[0])
            most = (*layout, open_slot)
            if len(list_free_slots(profiles, ours)) < len(list_free_slots(profiles, most)):
                exceptions += 1
                kept = compute_layout_value(profiles, ours)
                assert kept > compute_layout_value(profiles, most)
    # Ten choices for 1g.35gb on an H200 keep a 3g.71gb instead of one more small slot.
    assert exceptions == (10 if model == "H200" else 0)


def test_an_empty_card_is_filled_from_its_high_end() -> None:
    profiles = list_plain("H200")
    for name, start, left in (
        ("1g.18gb", 6, 14),
        ("1g.35gb", 6, 14),
        ("2g.35gb", 4, 12),
        ("3g.71gb", 4, 10),
    ):
        chosen = choose_slot(profiles, (), name)
        assert chosen is not None
        assert chosen[0].start == start
        assert len(list_free_slots(profiles, (chosen[0],))) == left
