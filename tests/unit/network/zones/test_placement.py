"""Where networks are placed: no zone over its size, and peered networks together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupool.network.zones.placement import (
    NetworkGroup,
    choose_zone,
    group_networks,
    place_groups,
)


def test_networks_fill_zone_0_before_another_zone_begins() -> None:
    counts: dict[int, int] = {}
    for _ in range(7):
        zone = choose_zone(counts, 3)
        counts[zone] = counts.get(zone, 0) + 1
    assert counts == {0: 3, 1: 3, 2: 1}


def test_the_emptiest_zone_that_is_used_takes_the_next_network() -> None:
    assert choose_zone({0: 2, 1: 1, 4: 1}, 3) == 1
    assert choose_zone({0: 3, 4: 2}, 3) == 4


def test_the_next_zone_is_the_lowest_that_is_not_used() -> None:
    assert choose_zone({0: 3, 2: 3}, 3) == 1


def test_a_group_larger_than_a_zone_gets_one_of_its_own() -> None:
    large = NetworkGroup((1, 2, 3))
    assert place_groups([NetworkGroup((9,)), large], 2) == {9: 0, 1: 1, 2: 1, 3: 1}


def test_networks_with_a_dedicated_line_stay_in_zone_0_and_others_make_room() -> None:
    fixed = NetworkGroup((2,), zone=0, is_fixed=True)
    assert place_groups([NetworkGroup((1,)), fixed], 1) == {2: 0, 1: 1}


def test_peered_networks_are_one_group_also_over_others_between_them() -> None:
    zones = {1: 0, 2: 0, 3: 1, 4: 1}
    groups = group_networks(zones, [(1, 3), (4, 3)], frozenset({4}))
    assert groups == [NetworkGroup((1, 3, 4), 0, is_fixed=True), NetworkGroup((2,), 0)]


@st.composite
def pools(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]], frozenset[int], int]:
    """Networks with their zones now, their peerings, those with lines, and the size of zones."""
    count = draw(st.integers(1, 30))
    zones = {number: draw(st.integers(0, 4)) for number in range(1, count + 1)}
    numbers = st.integers(1, count)
    peerings = draw(st.lists(st.tuples(numbers, numbers), max_size=10))
    fixed = draw(st.frozensets(numbers, max_size=3))
    return zones, peerings, fixed, draw(st.integers(1, 12))


@given(pools())
def test_no_zone_exceeds_its_size_unless_peerings_or_lines_make_it(
    pool: tuple[dict[int, int], list[tuple[int, int]], frozenset[int], int],
) -> None:
    zones, peerings, fixed, size = pool
    groups = group_networks(zones, peerings, fixed)
    placed = place_groups(groups, size)
    assert placed.keys() == zones.keys()
    for one, other in peerings:
        assert placed[one] == placed[other]
    assert {placed[one] for one in fixed} <= {0}
    for zone in set(placed.values()):
        inside = [group for group in groups if placed[group.networks[0]] == zone]
        is_exempt = len(inside) == 1 or any(group.is_fixed for group in inside)
        assert is_exempt or sum(len(group.networks) for group in inside) <= size


@given(pools())
def test_placing_again_moves_nothing(
    pool: tuple[dict[int, int], list[tuple[int, int]], frozenset[int], int],
) -> None:
    zones, peerings, fixed, size = pool
    placed = place_groups(group_networks(zones, peerings, fixed), size)
    again = place_groups(group_networks(placed, peerings, fixed), size)
    # A group that is larger than a zone is placed as a new one each time.
    groups = group_networks(placed, peerings, fixed)
    if all(len(group.networks) <= size for group in groups):
        assert again == placed
