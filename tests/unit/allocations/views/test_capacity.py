"""Free capacity for any caller: numbers of cards and nodes, and what quotas leave a tenant."""

from __future__ import annotations

from dataclasses import replace

from gpupool.allocations.views.capacity import describe_capacity
from gpupool.base.units import GIB
from gpupool.scheduling import CardStatus
from tests.support.scheduling_builders import cards, snapshot, tenant

USED = {"node-1/0": (300, 8 * GIB), "node-2/0": (1000, 140 * GIB)}


def test_nodes_count_what_is_free_on_open_cards_alone() -> None:
    pool = cards("2x2xH200", used=USED, status={"node-2/1": CardStatus.UNHEALTHY})
    nodes = describe_capacity(snapshot(pool)).nodes
    assert [(room.node, room.free_milli, room.whole_free) for room in nodes] == [
        ("node-1", 1700, 1),
        ("node-2", 0, 0),
    ]
    assert [room.fragment_milli for room in nodes] == [None, None], "nothing is expected yet"


def test_models_have_the_largest_share_that_one_card_takes() -> None:
    found = describe_capacity(snapshot("1x2xH200+1x1xT4", used=USED | {"node-2/0": (1000, 0)}))
    rooms = {room.model: room for room in found.models}
    assert (rooms["H200"].cards, rooms["H200"].free_milli, rooms["H200"].whole_free) == (2, 1700, 1)
    assert (rooms["H200"].largest_milli, rooms["H200"].largest_bytes) == (1000, 140 * GIB)
    assert rooms["T4"].largest_milli == 0


def test_a_tenant_is_told_what_its_quota_leaves_firm_and_preemptible() -> None:
    tenants = {"nlp": tenant(1000, 500, held=400), "other": tenant(1000, 0)}
    found = describe_capacity(snapshot("1x2xH200", tenants=tenants), "nlp").yours
    assert found is not None
    assert (found.tenant, found.preemptible_milli, found.most_preemptible_milli) == (
        "nlp",
        1100,
        1500,
    )
    assert (found.firm_milli, found.most_firm_milli) == (600, 1000), "the rest is another's"


def test_a_tenant_younger_than_the_snapshot_is_told_the_pool_alone() -> None:
    found = describe_capacity(snapshot("1x2xH200", tenants={"nlp": tenant()}), "younger")
    assert found.yours is None
    assert len(found.nodes) == 1


def test_what_is_free_beside_mps_clients_is_counted_for_their_owner_alone() -> None:
    pool = replace(cards("1x2xH200", used={"node-1/0": (300, 8 * GIB)}), owners={0: "nlp/alice"})
    found = describe_capacity(snapshot(pool))
    (room,) = found.models
    assert (room.free_milli, room.largest_milli, room.whole_free) == (1000, 1000, 1)
    assert (room.mps_cards, room.mps_free_milli) == (1, 700)
    assert [node.free_milli for node in found.nodes] == [1000]
    # The owner of an empty card means nothing.
    (empty,) = describe_capacity(snapshot(replace(cards("1x1xH200"), owners={0: "nlp"}))).models
    assert (empty.free_milli, empty.mps_cards) == (1000, 0)
