"""Which sets of nodes are tried for a gang, and in which order."""

import numpy as np

from gpupool.model.claim import TopologyConstraint
from gpupool.scheduling.filtering.domains import (
    MemberDemand,
    TopologyDomain,
    choose_part,
    find_depth,
    iterate_candidates,
    list_levels,
)
from tests.support.gang_builders import racked

LEVELS = list_levels(
    racked("8x1xT4", block=(0, 0, 0, 0, 1, 1, 1, 1), rack=(0, 0, 1, 1, 2, 2, 3, 3))
)
ALL = np.ones(8, dtype=np.bool_)


def tried(
    within: TopologyConstraint, room: list[int], count: int, inside: np.ndarray = ALL
) -> list[list[int]]:
    need = MemberDemand(np.array(room, dtype=np.int64), count)
    return [
        np.flatnonzero(domain.nodes).tolist()
        for domain in iterate_candidates(LEVELS, within, inside, [need])
    ]


def test_levels_are_counted_from_the_widest_and_the_node_is_the_last() -> None:
    assert [find_depth(LEVELS, name) for name in (None, "block", "rack", "node", "row")] == [
        0,
        1,
        2,
        3,
        0,
    ]


def test_without_a_wish_the_whole_pool_is_tried_when_it_has_the_room() -> None:
    assert tried(TopologyConstraint(), [1] * 8, 8) == [list(range(8))]
    assert tried(TopologyConstraint(), [1] * 8, 9) == []


def test_domains_of_a_required_level_come_with_the_least_room_first() -> None:
    assert tried(TopologyConstraint("rack"), [4, 4, 3, 3, 1, 1, 2, 4], 6) == [
        [2, 3],
        [6, 7],
        [0, 1],
    ]


def test_a_preferred_level_is_climbed_up_to_the_required_one() -> None:
    room = [2, 2, 1, 1, 2, 2, 2, 2]
    assert tried(TopologyConstraint("block", "rack"), room, 4) == [
        [0, 1],
        [4, 5],
        [6, 7],
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    assert tried(TopologyConstraint(None, "rack"), room, 7) == [[4, 5, 6, 7], list(range(8))]


def test_a_required_level_wider_than_the_preferred_one_bounds_it() -> None:
    assert tried(TopologyConstraint("block", "block"), [1] * 8, 5) == []
    assert tried(TopologyConstraint("rack", "block"), [1] * 8, 2) == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]


def test_only_nodes_inside_are_in_a_domain() -> None:
    inside = np.array([1, 0, 1, 1, 1, 1, 1, 1], dtype=np.bool_)
    assert tried(TopologyConstraint("rack"), [1] * 8, 2, inside) == [[2, 3], [4, 5], [6, 7]]


def test_a_node_that_does_not_say_its_rack_is_in_none() -> None:
    levels = list_levels(racked("4x1xT4", rack=(0, 0, 0, 0)))
    levels[0].of_node[3] = -1
    need = MemberDemand(np.ones(4, dtype=np.int64), 3)
    found = list(
        iterate_candidates(levels, TopologyConstraint("rack"), np.ones(4, dtype=np.bool_), [need])
    )
    assert [domain.nodes.tolist() for domain in found] == [[True, True, True, False]]


def test_every_need_must_find_its_count() -> None:
    needs = [
        MemberDemand(np.array([2, 2, 0, 0, 1, 1, 9, 9]), 3),
        MemberDemand(np.array([0, 1, 5, 5, 2, 2, 1, 1]), 2),
    ]
    found = [
        np.flatnonzero(one.nodes).tolist()
        for one in iterate_candidates(LEVELS, TopologyConstraint("rack"), ALL, needs)
    ]
    assert found == [[6, 7]]


def next_part(room: list[int], left: int, *, near: bool) -> list[int]:
    found = choose_part(
        LEVELS, TopologyDomain(ALL, 1), np.array(room, dtype=np.int64), left, near=near
    )
    return [] if found is None else np.flatnonzero(found.nodes).tolist()


def test_a_part_that_holds_all_the_rest_goes_first_the_tightest_of_them() -> None:
    room = [3, 3, 4, 4, 1, 0, 2, 2]
    assert next_part(room, 5, near=True) == next_part(room, 5, near=False) == [0, 1]


def test_else_the_fullest_part_or_the_roomiest_where_few_are_wished_for() -> None:
    room = [3, 3, 4, 4, 1, 0, 2, 2]
    assert next_part(room, 12, near=False) == [4, 5]
    assert next_part(room, 12, near=True) == [2, 3]
    assert next_part([0] * 8, 1, near=True) == []
