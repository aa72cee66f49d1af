"""Best-linked sets, on a cube mesh of NVLinks, behind a switch, and where only PCIe is known."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from gpupool.model.topology import DeviceLink, LinkKind, Topology
from gpupool.probes.document import read_machines
from gpupool.scheduling.scoring.link_scores import LinkScoreCache, build_link_scores, list_places

EIGHT = tuple("abcdefgh")
ALL = 0xFF
HGX = Topology(
    EIGHT,
    numa={uuid: i // 4 for i, uuid in enumerate(EIGHT)},
    domains={
        LinkKind.NVSWITCH: (frozenset(EIGHT),),
        LinkKind.PCIE_SWITCH: tuple(frozenset(EIGHT[i : i + 2]) for i in range(0, 8, 2)),
    },
)
PCIE = Topology(
    EIGHT[:4],
    numa={"a": 0, "b": 0, "c": 1, "d": 1},
    domains={LinkKind.HOST_BRIDGE: (frozenset("cd"),)},
)


def cube_mesh() -> Topology:
    recorded = Path(__file__).parents[3] / "machines" / "dgx-1v.json"
    (machine,) = read_machines(json.loads(recorded.read_text()))
    return machine.topology


def test_pairs_score_their_links_and_their_path() -> None:
    mesh = cube_mesh()
    uuids = mesh.devices
    assert mesh.pair_score(uuids[0], uuids[3]) == 2 * 100 + 20  # two NVLinks, same socket
    assert mesh.pair_score(uuids[0], uuids[1]) == 1 * 100 + 50  # one NVLink, one PCIe switch
    assert mesh.pair_score(uuids[0], uuids[7]) == 10  # nothing but the other socket
    assert PCIE.pair_score("c", "d") == 30
    assert PCIE.pair_score("a", "b") == 20


def test_behind_a_switch_every_pair_has_all_its_links() -> None:
    switched = {HGX.pair_score(a, b) // 100 for a, b in combinations(EIGHT, 2)}
    assert switched == {18}


def test_the_best_pair_of_a_cube_mesh_has_two_links() -> None:
    board = build_link_scores(cube_mesh(), cube_mesh().devices)
    found = list_places(board.find_best(ALL, ALL, 2))
    assert board.pairs[found[0]][found[1]] >= 220
    four = board.find_best(ALL, ALL, 4)
    assert board.sum_links(four) == max(
        board.sum_links(sum(1 << p for p in c)) for c in combinations(range(8), 4)
    )


def test_among_equal_sets_the_one_that_leaves_most_behind_is_taken() -> None:
    board = build_link_scores(HGX, EIGHT)
    assert list_places(board.find_best(ALL, ALL, 2)) == [0, 1]
    # c is taken: its neighbour behind the same PCIe switch is the one whose going hurts nobody.
    assert list_places(board.find_best(ALL & ~0b100, ALL & ~0b100, 1)) == [3]


def test_a_level_keeps_the_set_inside_one_island() -> None:
    board = build_link_scores(HGX, EIGHT)
    assert list_places(board.find_best(0b11111100, ALL, 4, "numa")) == [4, 5, 6, 7]
    assert board.find_best(0b00111100, ALL, 4, "numa") == 0
    assert board.has_island("pcie-switch", 0b1100, 2)
    assert not board.has_island("pcie-switch", 0b0110, 2)
    assert not board.has_island("blade", ALL, 2)


def test_sixteen_cards_are_looked_at_wholly_and_many_more_are_grown() -> None:
    for cards in (16, 40):
        uuids = tuple(f"u{i}" for i in range(cards))
        islands = (frozenset(uuids[:9]), frozenset(uuids[9:]))
        board = build_link_scores(Topology(uuids, domains={LinkKind.NVSWITCH: islands}), uuids)
        found = list_places(board.find_best((1 << cards) - 1, (1 << cards) - 1, 7))
        assert all(place < 9 for place in found) or all(place >= 9 for place in found)


def test_nodes_of_one_make_share_a_board() -> None:
    boards = LinkScoreCache()
    other = Topology(("x", "y"), (DeviceLink("x", "y", count=4),))
    assert boards.get_scores(
        Topology(("a", "b"), (DeviceLink("a", "b", count=4),)), ("a", "b")
    ) is boards.get_scores(other, ("x", "y"))
    assert boards.get_scores(other, ("x", "y")) is not boards.get_scores(
        Topology(("x", "y")), ("x", "y")
    )


@pytest.mark.parametrize(("mask", "expected"), [(0, []), (0b1, [0]), (0b101000, [3, 5])])
def test_places_are_the_bits_of_a_mask(mask: int, expected: list[int]) -> None:
    assert list_places(mask) == expected
