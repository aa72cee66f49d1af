"""Nearness of cards: fixed machines, and laws that hold on any."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.model.topology import DeviceLink, LinkKind, Topology, read_topology

EIGHT = tuple("abcdefgh")
HGX = Topology(
    EIGHT,
    numa={uuid: i // 4 for i, uuid in enumerate(EIGHT)},
    domains={
        LinkKind.NVSWITCH: (frozenset(EIGHT),),
        LinkKind.PCIE_SWITCH: tuple(frozenset(EIGHT[i : i + 2]) for i in range(0, 8, 2)),
    },
)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    uuids = tuple(f"GPU-{i}" for i in range(draw(st.integers(1, 8))))
    pairs = list(combinations(uuids, 2))
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    kinds = st.sampled_from([LinkKind.NVSWITCH, LinkKind.PCIE_SWITCH, LinkKind.HOST_BRIDGE])
    colours = st.lists(st.integers(0, 3), min_size=len(uuids), max_size=len(uuids))
    domains = {}
    for kind in draw(st.sets(kinds)):
        colour = dict(zip(uuids, draw(colours), strict=True))
        domains[kind] = tuple(
            frozenset(u for u in uuids if colour[u] == c) for c in sorted(set(colour.values()))
        )
    numa = draw(st.dictionaries(st.sampled_from(uuids), st.integers(0, 1)))
    links = tuple(DeviceLink(a, b, LinkKind.NVLINK, draw(st.integers(1, 18))) for a, b in linked)
    return Topology(uuids, links, numa, domains)


def test_behind_a_switch_all_pairs_are_one_step_apart_whatever_their_socket() -> None:
    assert {HGX.find_distance(a, b) for a, b in combinations(EIGHT, 2)} == {
        LinkKind.NVSWITCH.distance
    }
    assert HGX.find_diameter(EIGHT) == LinkKind.NVSWITCH.distance


def test_the_same_cards_form_other_sets_on_other_levels() -> None:
    assert [sorted(s) for s in HGX.list_domains(LinkKind.NUMA)] == [list("abcd"), list("efgh")]
    assert [sorted(s) for s in HGX.list_domains(LinkKind.PCIE_SWITCH)] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
        ["g", "h"],
    ]
    assert (
        HGX.list_domains(LinkKind.NVSWITCH)
        == HGX.list_domains(LinkKind.NVLINK)
        == (frozenset(EIGHT),)
    )


def test_the_nearest_of_several_paths_counts() -> None:
    both = Topology(
        ("a", "b", "c"),
        (DeviceLink("a", "b", LinkKind.NVLINK, 4),),
        {"a": 0, "b": 0, "c": 0},
        {LinkKind.HOST_BRIDGE: (frozenset("abc"),)},
    )
    assert both.find_kind("b", "a") is LinkKind.NVLINK
    assert both.find_kind("a", "c") is LinkKind.HOST_BRIDGE
    assert (both.link_count("b", "a"), both.link_count("a", "c")) == (4, 0)


def test_cards_with_nothing_known_between_them_are_as_far_apart_as_can_be() -> None:
    apart = Topology(("a", "b", "c"), numa={"a": 0, "b": 1})
    assert {apart.find_kind(a, b) for a, b in combinations("abc", 2)} == {LinkKind.SYSTEM}
    assert apart.list_domains(LinkKind.NUMA) == (frozenset("a"), frozenset("b"), frozenset("c"))


def test_a_chain_of_links_is_one_island_but_its_ends_are_not_linked() -> None:
    chain = Topology(("a", "b", "c"), (DeviceLink("a", "b"), DeviceLink("b", "c")))
    assert chain.list_domains(LinkKind.NVLINK) == (frozenset("abc"),)
    assert chain.find_kind("a", "c") is LinkKind.SYSTEM


@pytest.mark.parametrize("uuids", ["", "a"])
def test_one_card_or_none_has_no_extent(uuids: str) -> None:
    assert HGX.find_diameter(uuids) == 0


def test_a_machine_without_cards_has_no_islands() -> None:
    assert [Topology().list_domains(kind) for kind in LinkKind] == [()] * len(LinkKind)


def test_the_kinds_are_ordered_from_near_to_far() -> None:
    assert [kind.distance for kind in LinkKind] == [1, 2, 3, 4, 5, 6]


@given(machines())
def test_distance_is_symmetric_and_zero_only_to_itself(machine: Topology) -> None:
    for a in machine.devices:
        assert machine.find_distance(a, a) == 0
        for b in machine.devices:
            assert machine.find_distance(a, b) == machine.find_distance(b, a)
            assert a == b or 1 <= machine.find_distance(a, b) <= 6


@given(machines(), st.sampled_from(list(LinkKind)))
def test_the_islands_of_any_level_hold_every_card_exactly_once(
    machine: Topology, kind: LinkKind
) -> None:
    islands = machine.list_domains(kind)
    assert sorted(u for island in islands for u in island) == sorted(machine.devices)
    assert [len(i) for i in islands] == sorted((len(i) for i in islands), reverse=True)


@given(machines(), st.sampled_from([LinkKind.PCIE_SWITCH, LinkKind.HOST_BRIDGE, LinkKind.NUMA]))
def test_two_cards_of_one_island_are_at_most_that_level_apart(
    machine: Topology, kind: LinkKind
) -> None:
    for island in machine.list_domains(kind):
        assert machine.find_diameter(island) <= kind.distance


@given(machines(), st.data())
def test_taking_a_card_away_never_makes_a_set_wider(machine: Topology, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(machine.devices), unique=True, min_size=1))
    assert machine.find_diameter(chosen[1:]) <= machine.find_diameter(chosen)


def test_links_are_those_that_were_told() -> None:
    told = {
        "links": [["a", "b", "nvlink", 4]],
        "numa": {"a": 0},
        "domains": {"nvswitch": [["a", "b", "c"]]},
    }
    found = read_topology(told)
    assert (found.devices, found.link_count("a", "b")) == (("a", "b", "c"), 4)
    assert found.find_kind("b", "c") is LinkKind.NVSWITCH
    assert read_topology({}).devices == ()
