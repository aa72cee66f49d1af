"""Which cards of a node go together, in a pool: whole cards by their links, shares as the policy
has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupool.model.claim import Shape, TopologyConstraint
from gpupool.model.topology import LinkKind, Topology
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.topology import LinkedCardSets
from tests.support.scheduling_builders import Used, cards


def pool(used: Used | None = None, *, linked: tuple[int, ...] = (0,)) -> FreeCapacity:
    """Two nodes of eight cards; on the linked ones two NUMA nodes of four and PCIe switches of
    two."""
    made = cards("2x8xH200", used=used)
    links = {node: _halves(made.uuids[node * 8 : node * 8 + 8]) for node in linked}
    return FreeCapacity(replace(made, links=links))


def _halves(uuids: tuple[str, ...]) -> Topology:
    switches = tuple(frozenset(uuids[i : i + 2]) for i in range(0, 8, 2))
    return Topology(
        uuids,
        numa={u: i // 4 for i, u in enumerate(uuids)},
        domains={LinkKind.PCIE_SWITCH: switches},
    )


def chosen(free: FreeCapacity, shape: Shape, node: int = 0) -> list[int] | None:
    rows = LinkedCardSets(free).choose_cards(ClaimFit(shape, free), node)
    return None if rows is None else [int(row) for row in rows]


def whole(count: int, *, required: str | None = None, preferred: str | None = None) -> Shape:
    return Shape(1000, count=count, within=TopologyConstraint(required, preferred))


def test_two_whole_cards_come_from_one_switch() -> None:
    assert chosen(pool({"node-1/0": (300, 0)}), whole(2)) == [2, 3]


def test_a_single_whole_card_is_the_one_whose_partner_is_gone() -> None:
    assert chosen(pool({"node-1/5": (300, 0)}), whole(1)) == [4]


def test_shares_and_nodes_without_known_links_are_left_to_the_policy() -> None:
    assert chosen(pool(), Shape(300)) is None
    assert chosen(pool(), whole(2), node=1) is None


def test_a_required_level_is_kept_and_a_preferred_one_where_it_can_be() -> None:
    used = {"node-1/0": (300, 0), "node-1/4": (300, 0)}
    assert chosen(pool(used), whole(4, required="numa")) is None
    assert chosen(pool({"node-1/0": (300, 0)}), whole(4, required="numa")) == [4, 5, 6, 7]
    there_is_no_four = chosen(pool(used), whole(4, preferred="numa"))
    assert there_is_no_four is not None
    assert len(there_is_no_four) == 4


def test_nodes_say_whether_they_can_hold_a_claim_in_one_island() -> None:
    free = pool({"node-1/0": (300, 0)}, linked=(0, 1))
    sets, nodes = LinkedCardSets(free), np.arange(2)
    assert sets.find_nodes(ClaimFit(whole(4), free), nodes, "numa").tolist() == [True, True]
    assert sets.find_nodes(ClaimFit(whole(5), free), nodes, "numa").tolist() == [False, False]
    assert sets.find_nodes(ClaimFit(whole(1), free), nodes, "blade").tolist() == [True, True]


def test_a_node_without_known_links_holds_nothing_but_the_level_of_the_node() -> None:
    free = pool(linked=())
    sets, fit = LinkedCardSets(free), ClaimFit(whole(2), free)
    assert sets.find_nodes(fit, np.arange(1), "numa").tolist() == [False]
    assert sets.find_nodes(fit, np.arange(1), "node").tolist() == [True]
